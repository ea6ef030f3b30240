from builders import a_profile
from growing_profiles import a_growing_profile, read

from advisor.advice.advise import advise
from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import Location
from advisor.rules import RULES
from advisor.rules.piling_hooks import PilingHooks

LINE = Location("train.py", 25)
PILING = read("hooks", lambda step: 40 + 11 * step)


def test_hooks_that_are_never_removed_are_told_with_their_line() -> None:
    finding = PilingHooks().check(a_growing_profile(PILING, hooks_location=LINE))
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.HIGH)
    assert finding.title == "11 hooks more hang on the modules after each step"
    assert finding.location == LINE and "at line 25" in finding.advice


def test_they_come_before_the_time_that_they_cost() -> None:
    profile = a_growing_profile(PILING, read("step", lambda step: 5 + 0.1 * step), hooks_location=LINE)
    told = [finding.rule for finding in advise(profile, RULES) if finding.fired]
    assert told[:2] == ["piling_hooks", "rising_step_time"]


def test_a_constant_number_of_hooks_passes() -> None:
    for hooks in (read("hooks", lambda _: 400), read("hooks", lambda step: 40 + step // 100)):
        assert PilingHooks().check(a_growing_profile(hooks)).state is State.PASSED


def test_without_a_watched_run_nothing_is_said() -> None:
    assert PilingHooks().check(a_profile()).state is State.NOT_APPLICABLE
