from dataclasses import replace
from typing import Any

import pytest
from builders import a_gpu_profile, a_loader, a_machine, a_profile, a_served_profile, a_share

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import MemoryUse
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.profiles.facts.replayed import Replays
from advisor.rules.batch_too_small import BatchTooSmall

GIB = 2**30
ROOMY = MemoryUse(host_peak_bytes=GIB, host_limit_bytes=16 * GIB, activation_bytes=GIB // 8)


def doubled(ratio: float, *, wait_ms: float = 0.0, **facts: Any) -> Profile:
    return a_profile(
        phases_ms={"input_wait": wait_ms, "forward": 5.0},
        **{"loader": a_loader(), "replays": Replays(double_batch=a_share(ratio)), **facts},
    )


def test_a_doubled_batch_that_costs_little_time_asks_for_what_fits_in_memory() -> None:
    finding = BatchTooSmall().check(doubled(1.2, memory=ROOMY))
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(1 - (0.8 / 8 + 0.2))
    assert (finding.ceiling.source, finding.kind) == ("model", Kind.HEADROOM)
    assert finding.severity is Severity.MEDIUM
    assert finding.title == "1.20 times the time for twice the batch of 32"
    assert "batch_size=256" in finding.advice and "convergence" in finding.advice


def test_a_doubled_batch_that_costs_its_time_passes() -> None:
    assert BatchTooSmall().check(doubled(1.31, memory=ROOMY)).state is State.PASSED


@pytest.mark.parametrize(
    "memory",
    [None, replace(ROOMY, host_limit_bytes=None), replace(ROOMY, activation_bytes=None)],
    ids=["nothing", "limit", "activations"],
)
def test_without_memory_facts_only_the_batch_that_was_tried_is_spoken_of(memory: MemoryUse | None) -> None:
    finding = BatchTooSmall().check(doubled(1.2, memory=memory))
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.4)
    assert "batch_size=64" in finding.advice


def test_a_measurement_below_one_is_no_gift() -> None:
    finding = BatchTooSmall().check(doubled(0.9))
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.5)


def test_memory_bounds_the_batch() -> None:
    tight = MemoryUse(host_peak_bytes=2 * GIB, host_limit_bytes=10 * GIB, activation_bytes=2 * GIB)
    assert "batch_size=128" in BatchTooSmall().check(doubled(1.1, memory=tight)).advice


def test_memory_of_the_device_bounds_the_batch_there() -> None:
    memory = MemoryUse(
        host_peak_bytes=GIB,
        host_limit_bytes=GIB,
        device_peak_bytes=10 * GIB,
        device_total_bytes=40 * GIB,
        activation_bytes=10 * GIB,
    )
    profile = a_gpu_profile(memory=memory, replays=Replays(double_batch=a_share(1.1)))
    assert "batch_size=64" in BatchTooSmall().check(profile).advice


def test_full_memory_passes() -> None:
    full = MemoryUse(host_peak_bytes=8 * GIB, host_limit_bytes=10 * GIB, activation_bytes=GIB)
    assert BatchTooSmall().check(doubled(1.1, memory=full)).state is State.PASSED


def test_the_dataset_bounds_the_batch() -> None:
    profile = doubled(1.1, memory=ROOMY, loader=a_loader(dataset_length=150))
    assert "batch_size=128" in BatchTooSmall().check(profile).advice


def test_waiting_for_data_does_not_shrink_with_a_larger_batch() -> None:
    finding = BatchTooSmall().check(doubled(1.2, wait_ms=5.0))
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.2)


def test_accumulated_batches_are_joined_so_that_updates_stay() -> None:
    profile = doubled(1.1, memory=ROOMY, run=RunFacts(backwards_per_step=4.0))
    advice = BatchTooSmall().check(profile).advice
    assert "batch_size=128" in advice and "accumulate 1 instead of 4" in advice


def test_three_accumulated_batches_cannot_be_joined_in_twos() -> None:
    profile = doubled(1.1, memory=ROOMY, run=RunFacts(backwards_per_step=3.0))
    assert "learning rate" in BatchTooSmall().check(profile).advice


def test_a_batch_of_unknown_size_is_spoken_of_in_multiples() -> None:
    finding = BatchTooSmall().check(doubled(1.2, loader=a_loader(batch_size=None)))
    assert finding.title == "1.20 times the time for twice the batch"
    assert "2 times as large" in finding.advice


def test_a_refused_replay_says_why() -> None:
    profile = doubled(1.1, replays=Replays(refused=(("double_batch", "out of memory"),)))
    finding = BatchTooSmall().check(profile)
    assert finding.state is State.NOT_APPLICABLE and finding.title.endswith("out of memory")


@pytest.mark.parametrize(
    "profile", [Profile(a_machine()), a_profile(phases_ms={"forward": 9.0})], ids=["no steps", "no replay"]
)
def test_without_the_facts_nothing_is_said(profile: Profile) -> None:
    assert BatchTooSmall().check(profile).state is State.NOT_APPLICABLE


def test_the_size_of_requests_is_judged_by_a_rule_of_its_own() -> None:
    finding = BatchTooSmall().check(replace(a_served_profile(), replays=Replays(double_batch=a_share(1.0))))
    assert finding.state is State.NOT_APPLICABLE and "one_by_one" in finding.title
