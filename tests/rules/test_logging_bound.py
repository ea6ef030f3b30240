from builders import a_profile

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import HotSpot, Location
from advisor.profiles.facts.profile import RunFacts
from advisor.rules.logging_bound import LoggingBound

HERE = Location("train.py", 20)


def test_logging_in_every_step_is_reported_with_its_share_and_place() -> None:
    profile = a_profile(phases_ms={"logging": 3.0}, run=RunFacts(log_calls_per_step=2.0, log_location=HERE))
    finding = LoggingBound().check(profile)
    assert finding.title == "30 % of each step logs, 2 calls each"
    assert (finding.state, finding.severity, finding.location) == (State.OPPORTUNITY, Severity.HIGH, HERE)
    assert "`if step % 50 == 0:`" in finding.advice


def test_the_line_met_most_is_the_place_where_no_call_was_seen() -> None:
    spots = (
        HotSpot("logging", Location("train.py", 1), 0.2),
        HotSpot("logging", HERE, 0.7),
        HotSpot("other", Location("train.py", 2), 0.9),
    )
    finding = LoggingBound().check(a_profile(phases_ms={"logging": 0.5}, run=RunFacts(), hotspots=spots))
    assert (finding.location, finding.severity) == (HERE, Severity.LOW)


def test_a_line_per_step_that_costs_nothing_passes() -> None:
    profile = a_profile(phases_ms={"logging": 0.29}, run=RunFacts(log_calls_per_step=1.0))
    finding = LoggingBound().check(profile)
    assert (finding.state, finding.title) == (State.PASSED, "2.9 % of the step logs")
