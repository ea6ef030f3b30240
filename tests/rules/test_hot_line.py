from typing import Any

from builders import a_loader, a_profile, a_served_profile, a_window, an_op

from advisor.advice.advise import advise
from advisor.advice.finding import Finding, Kind, Severity, State
from advisor.profiles.facts.observed import HotSpot, LineCalls, Location
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import OpCost
from advisor.rules import RULES
from advisor.rules.hot_line import HotLine

LINE, OTHER = Location("/home/me/net.py", 12, "forward"), Location("/home/me/net.py", 30, "forward")


def profile(share: float, *ops: OpCost, **facts: Any) -> Profile:
    spots = (HotSpot("forward", LINE, share), HotSpot("backward", Location("train.py", 5), 1.0))
    return a_profile(
        **{
            "phases_ms": {"forward": 6.0, "backward": 3.0, "optimizer": 0.5},
            "hotspots": spots,
            "window": a_window(an_op("aten::add", 0.001, location=OTHER), *ops),
            **facts,
        },
    )


def check(share: float, *ops: OpCost, **facts: Any) -> Finding:
    return HotLine().check(profile(share, *ops, **facts))


def test_a_line_of_python_is_named_with_its_share() -> None:
    finding = check(0.8)
    assert (
        finding.title
        == "48 % of each step is at net.py:12, beside large operators: no operator is called there"
    )
    assert (finding.kind, finding.severity, finding.location) == (Kind.WASTE, Severity.HIGH, LINE)


def test_what_runs_there_is_named_in_the_words_of_the_program() -> None:
    spots = (HotSpot("forward", LINE, 0.8, call="time.sleep"),)
    finding = check(0.0, hotspots=spots)
    assert finding.title.startswith("48 % of each step is at net.py:12, in `time.sleep`, beside")
    assert finding.advice.startswith("Take the wait at net.py:12 out of the step")


def test_what_large_operators_take_there_is_plain_computing() -> None:
    finding = check(0.8, an_op("aten::mm", 4.0, calls=2.0, location=LINE))
    assert (finding.state, finding.title) == (
        State.PASSED,
        "8.0 % of each step is at one line beside large operators",
    )


def test_many_small_operators_are_counted_with_the_functions_that_call_them() -> None:
    calls = LineCalls(LINE, "forward", ("select", "add"), 300, 0.8, 0, 0, 0.0, 150, 150)
    finding = check(0.8, an_op("aten::add", 4.0, calls=1000.0, location=LINE), line_calls=(calls,))
    assert finding.kind is Kind.HEADROOM and "1000 operators" in finding.title
    assert finding.evidence["function_calls_per_step"] == 300


def test_a_line_that_backward_calls_is_named_and_the_line_that_calls_backward_is_not() -> None:
    spots = (HotSpot("backward", OTHER, 0.2), HotSpot("backward", LINE, 0.8))
    assert check(0.0, hotspots=spots).state is State.PASSED
    called = (spots[0], HotSpot("backward", LINE, 0.8, inner=True))
    finding = check(0.0, hotspots=called)
    assert finding.title.startswith("24 % of each step is at net.py:12, called by backward, beside")
    plain = an_op("aten::mm", 2.0, calls=2.0, location=LINE, phase="backward")
    assert check(0.0, plain, hotspots=called).state is State.PASSED


def test_the_line_below_which_whole_steps_run_says_nothing() -> None:
    below = tuple(HotSpot(phase, LINE, 1.0) for phase in ("forward", "backward", "optimizer"))
    assert check(0.8, hotspots=below).state is State.PASSED


def test_the_line_that_starts_backward_is_not_where_its_time_is() -> None:
    assert check(0.1).state is State.PASSED


def test_the_line_that_starts_the_update_is_not_where_the_rest_of_the_step_is() -> None:
    update = Location("train.py", 7)
    spots = (HotSpot("other", update, 1.0), HotSpot("optimizer", update, 1.0))
    assert check(0.1, hotspots=spots, phases_ms={"forward": 6.0, "other": 3.0}).state is State.PASSED


def test_a_wait_for_workers_is_no_work_of_the_line() -> None:
    waiting = (HotSpot("input_wait", LINE, 1.0),)
    waits = profile(0.0, hotspots=waiting, loader=a_loader(num_workers=2))
    assert HotLine().check(waits).state is State.PASSED


def test_it_is_told_only_where_nothing_known_explains_half_of_it() -> None:
    told = [finding.rule for finding in advise(profile(0.8), RULES) if finding.fired]
    assert told[0] == "hot_line"
    loop = LineCalls(LINE, "forward", ("linear",), 300, 0.9, 0, 0, 0.0, 300, 1, weights=2, graphed=True)
    findings = {finding.rule: finding for finding in advise(profile(0.8, line_calls=(loop,)), RULES)}
    assert findings["piecewise_calls"].fired and findings["hot_line"].state is State.PASSED
    assert "`piecewise_calls` says why" in findings["hot_line"].title


def test_without_lines_or_operators_by_line_nothing_is_said() -> None:
    assert check(0.8, hotspots=()).state is State.NOT_APPLICABLE
    assert check(0.8, window=a_window(an_op())).state is State.NOT_APPLICABLE


def test_the_line_that_asks_a_trained_model_has_all_of_its_operators() -> None:
    small = an_op("aten::add", 0.5, calls=1000.0, location=LINE)
    asked = check(0.8, small, run=a_served_profile().run)
    assert asked.state is State.PASSED and "is the model" in asked.title
    assert check(0.8, small).fired
