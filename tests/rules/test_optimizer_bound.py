from typing import Any

import pytest
from builders import a_device, a_gpu_profile, a_machine, a_profile, a_share, a_window, an_optimizer

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import Location, RankFacts
from advisor.profiles.facts.profile import OptimizerFacts, Profile
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.recorded import DeviceTime
from advisor.profiles.facts.replayed import Replays
from advisor.rules.optimizer_bound import OptimizerBound, floor_ms

MIB = 2**20


def updating(ms: float, *optimizers: OptimizerFacts, **facts: Any) -> Profile:
    return a_profile(
        phases_ms={"optimizer": ms, "backward": 4.0}, optimizers=optimizers or (an_optimizer(),), **facts
    )


def adam(**facts: Any) -> OptimizerFacts:
    return an_optimizer(parameter_bytes=100 * MIB, state_bytes=200 * MIB, **facts)


def test_an_expensive_update_asks_for_the_fused_form() -> None:
    finding = OptimizerBound().check(updating(2.0, an_optimizer(location=Location("train.py", 7))))
    assert finding.ceiling is not None and finding.ceiling.source == "timeline"
    assert (finding.severity, finding.kind) == (Severity.MEDIUM, Kind.HEADROOM)
    assert finding.title == "20 % of each step updates parameters"
    assert "torch.optim.AdamW(..., fused=True)" in finding.advice
    assert finding.knobs == ("optimizer_implementation", "accumulation")
    assert finding.location == Location("train.py", 7)


def test_a_tenth_of_the_step_is_enough() -> None:
    finding = OptimizerBound().check(updating(1.1))
    assert (finding.state, finding.severity) == (State.OPPORTUNITY, Severity.LOW)


def test_an_update_below_a_tenth_of_the_step_passes() -> None:
    assert OptimizerBound().check(updating(0.9)).state is State.PASSED


def test_the_replay_less_memory_traffic_is_the_ceiling() -> None:
    profile = updating(
        4.0,
        adam(),
        replays=Replays(optimizer_off=a_share(0.4)),
        rates=Rates(memory_sequential=700 * MIB / 1e-3),  # 1 ms for 3 times 100 and 2 times 200 MiB
    )
    finding = OptimizerBound().check(profile)
    assert finding.ceiling is not None
    assert (finding.ceiling.share, finding.ceiling.low) == pytest.approx((0.3, 0.26))
    assert (finding.ceiling.source, finding.severity) == ("replay", Severity.HIGH)
    assert finding.evidence["floor_ms"] == 1.0


def test_an_update_that_only_moves_what_it_must_passes() -> None:
    profile = updating(2.0, adam(), rates=Rates(memory_sequential=700 * MIB / 2e-3))
    assert OptimizerBound().check(profile).state is State.PASSED


def test_what_fits_in_a_cache_is_not_bound_by_memory() -> None:
    rates = Rates(memory_sequential=1e9, caches=(("L2", MIB), ("L3", 400 * MIB)))
    assert floor_ms(updating(2.0, adam(), rates=rates)) == 0.0
    assert floor_ms(a_gpu_profile(optimizers=(adam(),), rates=rates)) == pytest.approx(0.7 * 1.048576e3)


@pytest.mark.parametrize(
    ("optimizer", "rates"),
    [(adam(), None), (adam(), Rates()), (an_optimizer(state_bytes=5), Rates(memory_sequential=1e9))],
)
def test_traffic_that_is_not_known_is_not_subtracted(optimizer: OptimizerFacts, rates: Rates | None) -> None:
    profile = updating(2.0, optimizer, rates=rates)
    assert floor_ms(profile) is None
    finding = OptimizerBound().check(profile)
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.2)


def test_a_loop_that_was_asked_for_is_waste() -> None:
    assert OptimizerBound().check(updating(2.0, an_optimizer(foreach=False))).kind is Kind.WASTE


@pytest.mark.parametrize(
    "facts", [{"fused": True}, {"has_fused": False}, {"differentiable": True}, {"sparse_gradients": True}]
)
def test_where_no_other_form_helps_fewer_updates_are_headroom(facts: dict[str, Any]) -> None:
    finding = OptimizerBound().check(updating(2.0, an_optimizer(**facts)))
    assert (finding.kind, finding.knobs) == (Kind.HEADROOM, ("accumulation",))
    assert "changes training" in finding.advice


def test_several_ranks_can_share_the_state() -> None:
    finding = OptimizerBound().check(updating(2.0, ranks=(RankFacts(0, 10.0), RankFacts(1, 10.0))))
    assert "zero" in finding.knobs


def test_an_update_that_the_host_only_starts_is_found_by_replay() -> None:
    assert OptimizerBound().check(updating(0.2, replays=Replays(optimizer_off=a_share(0.3)))).fired


@pytest.mark.parametrize("profile", [Profile(a_machine()), a_profile(phases_ms={"other": 9.0})])
def test_without_steps_or_an_optimizer_nothing_is_said(profile: Profile) -> None:
    assert OptimizerBound().check(profile).state is State.NOT_APPLICABLE


@pytest.mark.parametrize(("waits_ms", "share"), [(0.0, None), (1.5, 0.16)])
def test_a_host_that_is_ahead_of_its_device_updates_for_nothing(waits_ms: float, share: float | None) -> None:
    time = DeviceTime(10.0, 9.9 - waits_ms, 0.0, 0.0, waits_ms, idle=(("launch", waits_ms),))
    device = a_device(time=time, kernels_ms=(("gemm", 8.0), ("optimizer", 0.1)))
    host = updating(2.4).phases
    finding = OptimizerBound().check(
        a_gpu_profile(window=a_window(device=device), phases=host, optimizers=(an_optimizer(),))
    )
    assert finding.fired == (share is not None)
    assert share is None or (finding.ceiling is not None and finding.ceiling.share == pytest.approx(share))
