from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.pipeline.model_stages import split
from advisor.tuners.mechanisms.pipeline.output_loss import loss_of_output
from advisor.tuners.mechanisms.pipeline.stage_proof import in_parts, prove

INPUTS = torch.linspace(-2, 2, 32).sin().reshape(8, 4)
BATCH = [INPUTS, torch.linspace(-1, 1, 8).reshape(8, 1)]


def usual(model: Any, batch: Any) -> Tensor:
    inputs, target = batch
    return functional.mse_loss(model(inputs), target)


def an_mlp(*extra: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), *extra, nn.Linear(4, 1))


def proved(model: nn.Module, loss: Any = usual, batch: Any = BATCH, parts: int = 4) -> None:
    prove(model, split(model, 2), loss, batch, parts)


def test_a_chain_and_a_mean_pass() -> None:
    proved(an_mlp())


def test_dropout_passes_and_draws_nothing_for_good() -> None:
    model = an_mlp(nn.Dropout(0.5))
    before = torch.get_rng_state()
    proved(model)
    assert torch.equal(torch.get_rng_state(), before)


def test_gradients_and_parameters_are_left_alone() -> None:
    model = an_mlp()
    before = [parameter.clone() for parameter in model.parameters()]
    proved(model)
    assert all(map(torch.equal, model.parameters(), before))
    assert all(parameter.grad is None for parameter in model.parameters())


class Centred(nn.Module):
    """Looks at the other samples of the batch."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs - inputs.mean(0)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls.add_(1)
        return inputs


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = an_mlp()

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        output = self.body(inputs)
        return output, output


class Overwriting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.layer(inputs.mul_(2))
        return output


def summed(model: Any, batch: Any) -> Tensor:
    return functional.mse_loss(model(batch[0]), batch[1], reduction="sum")


def weighted(model: Any, batch: Any) -> Tensor:
    weight = batch[1].abs()
    loss: Tensor = ((model(batch[0]) - batch[1]) ** 2 * weight).sum() / weight.sum()
    return loss


@pytest.mark.parametrize(
    ("model", "loss", "reason"),
    [
        (an_mlp(Centred()), usual, "mixes samples"),
        (an_mlp(Counting()), usual, "changes buffers"),
        (Pair(), usual, "more than one tensor"),
        (nn.Sequential(nn.Linear(4, 4), Overwriting(), nn.Linear(4, 1)), usual, "changes in place"),
        (an_mlp(), summed, "not the mean"),
        (an_mlp(), weighted, "not the mean"),
    ],
)
def test_what_parts_would_not_learn_alike_is_refused(model: nn.Module, loss: Any, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        proved(model, loss)


def test_stages_of_another_model_are_refused() -> None:
    with pytest.raises(Refused, match="do not compute what the model does"):
        prove(an_mlp(), split(an_mlp(nn.Sigmoid()), 2), usual, BATCH, 4)


@pytest.mark.parametrize(
    "step",
    [
        lambda model, batch: usual(model, batch) + sum(p.sum() for p in model.parameters()),
        lambda model, batch: usual(model, batch) + model(batch[0]).mean(),
        lambda model, batch: functional.mse_loss(model(batch[0] * 2), batch[1]),
        lambda model, batch: functional.mse_loss(model(inputs=batch[0]), batch[1]),
        lambda model, batch: functional.mse_loss(batch[0].sum(1, keepdim=True).requires_grad_(), batch[1]),
    ],
)
def test_a_step_that_does_more_than_call_the_model_is_refused(step: Callable[..., Tensor]) -> None:
    with pytest.raises(Refused, match="does more with the model"):
        proved(an_mlp(), step)


def test_a_step_that_only_calls_the_model_is_as_good_as_a_loss() -> None:
    proved(an_mlp(), lambda model, batch: functional.l1_loss(model(batch[0]), batch[1]))


def test_the_loss_of_an_output_has_its_graph() -> None:
    output = torch.ones(8, 1, requires_grad=True)
    loss_of_output(usual, output, BATCH).backward()
    assert output.grad is not None
    assert torch.allclose(output.grad, 2 * (output - BATCH[1]).detach() / 8)


@pytest.mark.parametrize("batch", [{"inputs": INPUTS}, ["text", INPUTS], []])
def test_batches_without_an_input_tensor_are_refused(batch: Any) -> None:
    with pytest.raises(Refused, match="no pair"):
        proved(an_mlp(), batch=batch)


def test_parts_of_a_batch_that_holds_more_than_tensors_are_refused() -> None:
    with pytest.raises(Refused, match="more than tensors"):
        in_parts([INPUTS, ["a"] * 8], 2)
