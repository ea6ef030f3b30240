from typing import Any

import pytest
import torch
from builders import a_machine, a_profile, a_rich_profile, a_root, a_run
from torch import nn

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.low_precision_parameters import LowPrecisionParameters
from advisor.tuners.space.space import build_space


def switched_on() -> Run:
    run = a_run(low_precision_parameters=LowPrecisionParameters())
    run.configure({"low_precision_parameters": "bf16"})
    return run


def test_parameters_gradients_and_state_take_half_the_memory() -> None:
    layer, norm = nn.Linear(4, 8), nn.BatchNorm1d(8)
    model, run = nn.Sequential(layer, norm), switched_on()
    optimizer = torch.optim.AdamW(model.parameters())
    weight = layer.weight
    assert run.model(model) is model
    output = run.call(model.forward, model)(torch.ones(2, 4))
    output.sum().backward()
    optimizer.step()
    assert layer.weight is weight and weight.grad is not None
    kinds = {weight.dtype, weight.grad.dtype, optimizer.state[weight]["exp_avg"].dtype}
    assert kinds == {torch.bfloat16}
    assert norm.num_batches_tracked is not None and norm.num_batches_tracked.dtype == torch.int64
    assert run.unanswered() == []


def test_inputs_are_cast_and_outputs_are_float32() -> None:
    seen: list[Any] = []

    def function(*inputs: Any, **named: Any) -> dict[str, torch.Tensor]:
        seen.extend([*inputs, named])
        return {"logits": torch.ones(2, dtype=torch.bfloat16)}

    call = switched_on().call(function, nn.Identity())
    output = call([torch.ones(2)], torch.ones(2, dtype=torch.long), mask=torch.ones(2))
    assert seen[0][0].dtype == seen[2]["mask"].dtype == torch.bfloat16
    assert seen[1].dtype == torch.long
    assert output["logits"].dtype == torch.float32


def test_parameters_of_another_type_are_refused_and_stay() -> None:
    model, run = nn.Linear(2, 2).double(), switched_on()
    run.model(model)
    assert run.refused == {"low_precision_parameters": "there are parameters of type float64"}
    assert model.weight.dtype == torch.float64


def test_it_is_tried_only_when_named() -> None:
    profile = a_rich_profile()
    knobs = {"low_precision_parameters": LowPrecisionParameters()}
    assert build_space(knobs, profile).choices == {}
    named = build_space(knobs, profile, named={"low_precision_parameters": None})
    assert named.choices == {"low_precision_parameters": ["off", "bf16"]}


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(a_machine(bf16_speedup=0.5)), "0.5 times the float32 rate"),
        (a_profile(roots=(a_root(dtypes=("torch.bfloat16",)),)), "bfloat16, not float32 alone"),
        (a_profile(roots=(a_root(dtypes=("float32", "float64")),)), "float32, float64, not float32 alone"),
        (a_profile(run=RunFacts(own_scaler=True)), "scales its loss"),
    ],
)
def test_elsewhere_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        LowPrecisionParameters().choices(profile)
