from dataclasses import replace
from typing import Any

import pytest
from builders import a_profile, a_served_profile

from advisor.advice.finding import Finding, Kind, Severity, State
from advisor.profiles.facts.observed import HotSpot, LineCalls, Location
from advisor.rules.repeated_work import RepeatedWork

LINE = Location("/home/me/net.py", 22, "forward")


def a_line(repeated_share: float, **facts: Any) -> LineCalls:
    return LineCalls(**{
        "location": LINE, "phase": "forward", "functions": ("matrix_exp", "tril"), "calls": 200,
        "share": 0.9, "repeated": 196, "repeated_across": 0, "repeated_share": repeated_share,
        "turns": 200, "chain": 1, **facts,
    })  # fmt: skip


def check(*lines: LineCalls) -> Finding:
    phases = {"forward": 3.0, "backward": 5.0, "other": 2.0}
    return RepeatedWork().check(a_profile(phases_ms=phases, line_calls=lines))


def test_what_a_loop_computes_again_is_named_with_how_often() -> None:
    finding = check(a_line(0.8))
    assert finding.title == (
        "24 % of each step computes again what it has: `matrix_exp`, 196 of 200 calls a step at "
        "/home/me/net.py:22"
    )
    assert (finding.kind, finding.location) == (Kind.WASTE, LINE)
    assert "in front of the loop" in finding.advice


def test_a_line_is_not_told_by_what_it_computes_anew() -> None:
    line = a_line(0.8, functions=("lstm", "zeros"), repeated_functions=("zeros",))
    assert "`zeros`" in check(line).title and "lstm" not in check(line).title


def test_what_is_called_twice_needs_no_loop() -> None:
    advice = check(a_line(0.5, calls=10, repeated=5)).advice
    assert "use it again" in advice and "loop" not in advice


def test_what_records_a_graph_is_paid_in_backward_as_well() -> None:
    finding = check(a_line(0.8, graphed=True))
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.64)
    assert finding.severity is Severity.HIGH


def test_a_parametrized_weight_has_a_cure_of_its_own() -> None:
    finding = check(a_line(0.8, graphed=True, parametrized=True))
    assert "a parametrized weight" in finding.title and "parametrize.cached()" in finding.advice


def test_what_each_step_makes_anew_is_made_once() -> None:
    assert "before the first step" in check(a_line(0.8, repeated=4, repeated_across=4)).advice


def test_several_lines_are_summed_and_each_phase_counts_its_own() -> None:
    ceiling = check(a_line(0.5), a_line(0.5, phase="other"), a_line(0.9, phase="evaluation")).ceiling
    assert ceiling is not None and ceiling.share == pytest.approx(0.15 + 0.1)


def test_a_little_is_no_finding() -> None:
    assert check(a_line(0.1)).state is State.PASSED
    assert check(a_line(0.0, repeated=0)).title == "0.0 % of each step computes again what it has"
    assert check().state is State.NOT_APPLICABLE


def test_what_a_library_repeats_where_a_trained_model_is_asked_is_not_the_programs() -> None:
    profile = replace(a_served_profile(), line_calls=(a_line(0.5),))
    assert RepeatedWork().check(profile).fired
    asked = replace(profile, hotspots=(HotSpot("forward", LINE, 0.9),))
    assert RepeatedWork().check(asked).state is State.PASSED


def test_a_few_of_many_calls_are_equal_by_chance() -> None:
    assert check(a_line(0.3, calls=512, repeated=32)).state is State.PASSED


def test_what_the_step_made_before_is_not_sent_in_front_of_the_first_step() -> None:
    advice = check(a_line(0.5, calls=5, repeated=5)).advice
    assert advice.startswith("Use what the step computed before") and "first step" not in advice
