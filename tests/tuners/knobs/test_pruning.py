import pytest
import torch
from served import Small

from advisor.tuners.knob import Refused, Semantics
from advisor.tuners.knobs.pruning import KINDS, Pruning


@pytest.mark.parametrize("kind", KINDS)
def test_half_of_the_weights_are_zero_and_every_tensor_is_as_large_as_before(kind: str) -> None:
    model, before = Small().eval(), Small().eval()
    sizes = {name: weight.shape for name, weight in before.named_parameters()}
    Pruning().model(model, kind)
    assert {name: weight.shape for name, weight in model.named_parameters()} == sizes
    weights = torch.cat([model.hidden.weight.flatten(), model.convolution.weight.flatten()])
    assert 0.4 < (weights == 0).float().mean().item() < 0.6
    pictures = torch.rand(1, 3, 8, 8)
    assert not torch.allclose(model(pictures)["logits"], before(pictures)["logits"])


def test_whole_rows_are_masked() -> None:
    model = Small()
    Pruning().model(model, "structured")
    rows = (model.hidden.weight == 0).all(1)
    assert rows.sum() == 16


def test_it_is_tried_when_it_is_named_only() -> None:
    knob = Pruning()
    assert knob.named_only and knob.opt_in and knob.semantics is Semantics.TRAINING


def test_a_model_without_such_layers_is_refused() -> None:
    with pytest.raises(Refused, match="no linear layer"):
        Pruning().model(torch.nn.ReLU(), "global")
