from builders import a_device, a_gpu_profile, a_rich_profile, a_window

from advisor.advice.advise import advise
from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import Location, SyncPoint
from advisor.profiles.facts.profile import Profile
from advisor.rules import RULES
from advisor.rules.sync_points import SyncPoints

LINE = Location("train.py", 42)


def a_run_with(*syncs: SyncPoint) -> Profile:
    return a_gpu_profile(syncs=syncs)


def test_idle_after_reading_a_value_is_reported_at_the_worst_line() -> None:
    finding = SyncPoints().check(
        a_run_with(
            SyncPoint("item", Location("train.py", 7), 1.0, 0.5, 0.5),
            SyncPoint("item", LINE, 1.0, 2.0, 2.0),
        )
    )
    assert finding.state is State.OPPORTUNITY and finding.kind is Kind.WASTE
    assert finding.severity is Severity.HIGH
    assert finding.ceiling is not None
    assert (round(finding.ceiling.share, 3), finding.ceiling.source) == (0.25, "timeline")
    assert finding.location == LINE
    assert "train.py:42" in finding.advice and "every 50 steps" in finding.advice
    assert [call["place"] for call in finding.evidence["calls"]] == ["train.py:42", "train.py:7"]


def test_idle_just_below_the_threshold_passes_with_its_share() -> None:
    finding = SyncPoints().check(a_run_with(SyncPoint("item", LINE, 1.0, 0.29, 0.29)))
    assert finding.state is State.PASSED and finding.title.startswith("2.9 %")


def test_calls_of_the_optimizer_and_the_loader_are_not_the_users() -> None:
    finding = SyncPoints().check(
        a_run_with(
            SyncPoint("item", None, 100.0, 3.0, 3.0, where="optimizer"),
            SyncPoint("cpu", None, 1.0, 3.0, 3.0, where="loader"),
        )
    )
    assert finding.state is State.PASSED


def test_an_explicit_synchronise_belongs_to_its_own_rule() -> None:
    assert SyncPoints().check(a_run_with(SyncPoint("synchronize", LINE, 1.0, 3.0, 3.0))).state is State.PASSED


def test_a_mask_gets_advice_that_keeps_the_shape() -> None:
    finding = SyncPoints().check(a_run_with(SyncPoint("nonzero", LINE, 1.0, 1.0, 1.0)))
    assert "torch.where" in finding.advice


def test_a_copy_to_the_host_is_moved_out_of_the_step() -> None:
    finding = SyncPoints().check(a_run_with(SyncPoint("cpu", None, 1.0, 1.0, 1.0)))
    assert finding.advice.startswith("Move the `cpu` call out of the step")


def test_a_cpu_never_waits_for_itself() -> None:
    profile = a_rich_profile(syncs=(SyncPoint("item", LINE, 1.0),))
    assert SyncPoints().check(profile).state is State.NOT_APPLICABLE


def test_without_a_timeline_nothing_is_claimed() -> None:
    assert SyncPoints().check(a_gpu_profile()).state is State.NOT_APPLICABLE
    assert SyncPoints().check(a_run_with(SyncPoint("item", LINE, 1.0))).state is State.NOT_APPLICABLE


def test_it_is_named_as_the_cause_of_an_idle_device() -> None:
    profile = a_gpu_profile(
        syncs=(SyncPoint("item", LINE, 1.0, 2.0, 2.0),),
        window=a_window(device=a_device(idle_share=0.4, busy_share=0.6)),
    )
    findings = advise(profile, {name: RULES[name] for name in ("idle_device", "sync_points")})
    assert [finding.rule for finding in findings] == ["sync_points", "idle_device"]
    assert findings[0].explains == "idle_device"


def test_idle_just_above_the_threshold_is_low() -> None:
    finding = SyncPoints().check(a_run_with(SyncPoint("item", LINE, 1.0, 0.31, 0.31)))
    assert finding.severity is Severity.LOW
