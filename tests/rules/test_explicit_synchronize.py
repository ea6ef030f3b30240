import pytest
from builders import a_gpu_profile, a_rich_profile

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import Location, SyncPoint
from advisor.rules.explicit_synchronize import ExplicitSynchronize

LINE = Location("train.py", 30)


@pytest.mark.parametrize("kind", ["synchronize", "event_synchronize", "empty_cache"])
def test_a_synchronise_in_the_step_is_reported_with_the_idle_time_after_it(kind: str) -> None:
    finding = ExplicitSynchronize().check(a_gpu_profile(syncs=(SyncPoint(kind, LINE, 1.0, 2.0, 1.2),)))
    assert finding.state is State.OPPORTUNITY and finding.kind is Kind.WASTE
    assert finding.severity is Severity.MEDIUM
    assert finding.ceiling is not None and round(finding.ceiling.share, 3) == 0.12
    assert finding.location == LINE
    assert finding.advice.startswith(f"Remove `{kind}()` at train.py:30")


def test_one_that_costs_next_to_nothing_passes_with_its_share() -> None:
    finding = ExplicitSynchronize().check(
        a_gpu_profile(syncs=(SyncPoint("synchronize", LINE, 0.01, 0.1, 0.1),))
    )
    assert finding.state is State.PASSED and finding.title.startswith("1.0 %")


def test_reading_a_value_is_another_rules_matter() -> None:
    finding = ExplicitSynchronize().check(a_gpu_profile(syncs=(SyncPoint("item", LINE, 1.0, 3.0, 3.0),)))
    assert finding.state is State.PASSED and finding.title.startswith("0 calls")


def test_synchronising_inside_the_optimizer_is_not_the_users() -> None:
    sync = SyncPoint("synchronize", None, 1.0, 3.0, 3.0, where="optimizer")
    assert ExplicitSynchronize().check(a_gpu_profile(syncs=(sync,))).state is State.PASSED


def test_without_a_device_timeline_nothing_is_claimed() -> None:
    untimed = (SyncPoint("synchronize", LINE, 1.0, 2.0),)
    assert ExplicitSynchronize().check(a_gpu_profile(syncs=untimed)).state is State.NOT_APPLICABLE
    assert ExplicitSynchronize().check(a_rich_profile(syncs=untimed)).state is State.NOT_APPLICABLE
    assert ExplicitSynchronize().check(a_gpu_profile()).state is State.NOT_APPLICABLE
