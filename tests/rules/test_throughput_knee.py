import pytest
from builders import a_loader, a_machine, a_profile, a_share

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.replayed import Replays
from advisor.rules.throughput_knee import ThroughputKnee


def batches(double: float, half: float | None = None) -> Profile:
    return a_profile(
        loader=a_loader(),
        replays=Replays(double_batch=a_share(double), half_batch=a_share(half) if half is not None else None),
    )


def test_a_batch_past_the_knee_is_said_without_weight() -> None:
    finding = ThroughputKnee().check(batches(1.98))
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.LOW)
    assert finding.title == "1.0 % more samples/s for twice the batch: no reason to grow further"
    assert finding.advice.startswith("Keep the batch:")


@pytest.mark.parametrize(("double", "fires"), [(1.945, True), (1.938, False)])
def test_the_knee_is_at_three_percent(double: float, fires: bool) -> None:
    assert ThroughputKnee().check(batches(double)).fired is fires


def test_a_batch_before_the_knee_passes() -> None:
    finding = ThroughputKnee().check(batches(1.9))
    assert (finding.state, finding.title) == (State.PASSED, "5.3 % more samples/s for twice the batch")


def test_a_larger_batch_can_be_slower() -> None:
    assert ThroughputKnee().check(batches(2.5)).title.startswith("20 % fewer samples/s")


def test_half_the_batch_is_advised_where_it_is_as_fast() -> None:
    advice = ThroughputKnee().check(batches(1.98, half=0.505)).advice
    assert "halve it to free memory" in advice and "changes training" in advice


def test_half_the_batch_is_not_advised_where_it_is_slower() -> None:
    finding = ThroughputKnee().check(batches(1.98, half=0.52))
    assert "halve" not in finding.advice
    assert finding.evidence["time_of_half_the_batch"] == 0.52


@pytest.mark.parametrize("profile", [Profile(a_machine()), a_profile(phases_ms={"forward": 9.0})])
def test_without_the_replay_nothing_is_said(profile: Profile) -> None:
    assert ThroughputKnee().check(profile).state is State.NOT_APPLICABLE
