import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from builders import a_profile, a_run, a_window, an_op
from torch.nn.utils import clip_grad_norm_

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.clip_grad_foreach import ClipGradForeach

GROUPED = a_window(an_op(), an_op("aten::_foreach_norm", phase="other"))
ONE_BY_ONE = a_window(an_op("aten::linalg_vector_norm", phase="other", calls=9.0))


@pytest.fixture
def default_kept() -> Iterator[None]:
    function: Any = inspect.unwrap(clip_grad_norm_)
    before = function.__defaults__
    yield
    function.__defaults__ = before


def clipping(**arguments: Any) -> tuple[bool, list[torch.Tensor]]:
    """Whether norms were taken in groups, and the clipped gradients."""
    parameters = [torch.nn.Parameter(torch.ones(size)) for size in (3, 4)]
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 2.0)
    with torch.profiler.profile() as profile:
        clip_grad_norm_(parameters, 1.0, **arguments)
    grouped = any(event.name == "aten::_foreach_norm" for event in profile.events())
    return grouped, [parameter.grad for parameter in parameters if parameter.grad is not None]


def a_run_that_groups() -> Run:
    run = a_run({"clip_grad_foreach": "on"}, clip_grad_foreach=ClipGradForeach())
    run.process()
    return run


def test_a_live_switch_reaches_functions_imported_before_and_comes_back(default_kept: None) -> None:
    run = a_run_that_groups()
    grouped = [clipping()[0]]
    run.configure({"clip_grad_foreach": "off"})
    grouped.append(clipping()[0])
    assert run.unanswered() == []
    run.configure({})
    grouped.append(clipping()[0])
    assert grouped == [True, False, True]


def test_back_at_the_present_setting_the_default_is_torchs_own(default_kept: None) -> None:
    own = inspect.signature(clip_grad_norm_)
    run = a_run_that_groups()
    run.configure({"clip_grad_foreach": "off"})
    assert inspect.signature(clip_grad_norm_) != own
    run.configure({})
    assert inspect.signature(clip_grad_norm_) == own


def test_both_ways_clip_to_the_same_gradients(default_kept: None) -> None:
    own = clipping()[1]
    ClipGradForeach().process("off")
    for ours, theirs in zip(clipping()[1], own, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_program_that_passes_the_argument_keeps_its_own(default_kept: None) -> None:
    ClipGradForeach().process("off")
    assert clipping(foreach=True)[0]


def test_a_program_seen_to_clip_in_groups_is_offered_the_other_way() -> None:
    assert ClipGradForeach().choices(a_profile(window=GROUPED)) == ["on", "off"]


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(), "no operators were recorded"),
        (a_profile(window=a_window(an_op())), "not seen to clip"),
        (a_profile(window=a_window(an_op("aten::_foreach_norm", phase="optimizer"))), "not seen to clip"),
        (a_profile(window=a_window(an_op("aten::linalg_vector_norm", phase="other"))), "not seen to clip"),
        (a_profile(window=ONE_BY_ONE), "one by one"),
    ],
)
def test_elsewhere_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        ClipGradForeach().choices(profile)


def test_what_the_program_does_is_its_present_setting() -> None:
    assert ClipGradForeach().present(a_profile(window=ONE_BY_ONE)) == "off"
    assert ClipGradForeach().present(a_profile(window=GROUPED)) == "on"


def test_a_replacement_without_the_argument_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda parameters, max_norm: None)
    run = a_run_that_groups()
    run.configure({"clip_grad_foreach": "off"})
    assert "without foreach" in run.refused["clip_grad_foreach"]
