"""How much is recorded around a request."""

from dataclasses import replace

import pytest
import torch
from builders import a_rich_profile

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.inference_mode import InferenceMode


def serving(mode: str | None) -> Profile:
    profile = a_rich_profile()
    assert profile.run is not None
    return replace(profile, run=replace(profile.run, clock="request", requests_mode=mode))


@pytest.mark.parametrize(
    ("mode", "choices"),
    [("grad", ["grad", "no_grad", "inference_mode"]), ("no_grad", ["no_grad", "inference_mode"])],
)
def test_what_records_less_is_tried(mode: str, choices: list[str]) -> None:
    assert InferenceMode().choices(serving(mode)) == choices


@pytest.mark.parametrize("mode", ["inference_mode", None])
def test_where_nothing_is_recorded_or_nothing_was_seen_there_is_nothing_to_try(mode: str | None) -> None:
    with pytest.raises(Refused):
        InferenceMode().choices(serving(mode))


def test_a_mode_that_records_more_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="no effect"):
        InferenceMode().check("grad", serving("no_grad"))


@pytest.mark.parametrize(
    ("value", "graph", "inference"), [("no_grad", False, False), ("inference_mode", False, True)]
)
def test_nothing_is_recorded_inside(value: str, graph: bool, inference: bool) -> None:
    model = torch.nn.Linear(2, 2)
    plain = model(torch.ones(1, 2))
    context = InferenceMode().forward(model, value)
    assert context is not None
    with context:
        output = model(torch.ones(1, 2))
    assert (output.requires_grad, output.is_inference()) == (graph, inference)
    assert torch.equal(output, plain) and InferenceMode().forward(model, "grad") is None
