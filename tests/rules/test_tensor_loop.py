from typing import Any

import pytest
from builders import a_profile

from advisor.advice.advise import advise
from advisor.advice.finding import Finding, State
from advisor.profiles.facts.observed import HotSpot, LineCalls, Location
from advisor.rules import RULES
from advisor.rules.tensor_loop import TensorLoop

LINE = Location("/home/me/average.py", 12, "update")


def a_line(**facts: Any) -> LineCalls:
    return LineCalls(**{
        "location": LINE, "phase": "other", "functions": ("mul", "add_", "mul_"), "calls": 1456, "share": 0.9,
        "repeated": 0, "repeated_across": 0, "repeated_share": 0.0, "turns": 364, "chain": 2, **facts,
    })  # fmt: skip


def check(**facts: Any) -> Finding:
    phases = {"forward": 3.0, "backward": 2.0, "other": 5.0}
    return TensorLoop().check(a_profile(phases_ms=phases, line_calls=(a_line(**facts),)))


def test_an_average_kept_weight_by_weight_is_named_with_its_line_and_the_call_for_lists() -> None:
    finding = check()
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.45)
    assert finding.location == LINE and "1456 calls of `mul`, `add_`, `mul_`" in finding.title
    assert "torch._foreach_add_" in finding.advice


def test_gradients_checked_one_by_one_are_told_the_norm_of_the_list() -> None:
    finding = check(functions=("isnan", "any", "isinf"))
    assert "torch._foreach_norm(tensors)" in finding.advice and "clip_grad_norm_" in finding.advice
    assert "AveragedModel" not in finding.advice
    assert check(functions=("norm", "item"), graphed=True).state is State.PASSED  # part of a loss


def test_a_line_that_sampling_hardly_met_passes_whatever_its_part_of_all_calls() -> None:
    spots = (
        HotSpot("other", Location("/home/me/average.py", 11, "update"), 0.96),
        HotSpot("other", LINE, 0.03),
    )
    phases = {"forward": 3.0, "backward": 2.0, "other": 5.0}
    assert TensorLoop().check(a_profile(phases_ms=phases, line_calls=(a_line(),), hotspots=spots)).state is (
        State.PASSED
    )


def test_a_chain_a_few_tensors_and_what_has_no_form_for_lists_pass() -> None:
    assert check(chain=364).state is State.PASSED
    assert check(turns=10, chain=1).state is State.PASSED
    assert check(functions=("linear", "relu")).state is State.PASSED
    assert check(graphed=True).state is State.PASSED
    assert check(share=0.05).state is State.PASSED


def test_it_stands_before_the_time_in_no_part_that_it_explains() -> None:
    phases = {"forward": 3.0, "backward": 2.0, "other": 5.0}
    profile = a_profile(phases_ms=phases, line_calls=(a_line(),))
    told = [finding.rule for finding in advise(profile, RULES) if finding.fired]
    assert told[0] == "tensor_loop"


def test_without_followed_values_nothing_is_said() -> None:
    assert TensorLoop().check(a_profile(phases_ms={"forward": 3.0})).state is State.NOT_APPLICABLE


@pytest.mark.parametrize("functions", [("long", "add_", "__getitem__"), ("__setitem__", "__getitem__")])
def test_elements_of_one_tensor_are_changed_by_one_indexed_call(functions: tuple[str, ...]) -> None:
    finding = check(functions=functions)
    assert "torch.bincount" in finding.advice and "accumulate=True" in finding.advice
    assert "_foreach" not in finding.advice
