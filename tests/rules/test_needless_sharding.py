from typing import Any

import pytest
from builders import a_profile, a_root, an_optimizer

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import Location, MemoryUse, RankFacts
from advisor.rules.needless_sharding import NeedlessSharding

GIB = 2**30
HERE = Location("net.py", 3)
SHARDED = {"roots": (a_root(parallel="FullyShardedDataParallel", location=HERE),)}


def memory(model_gib: float, peak_gib: float) -> MemoryUse:
    """A quarter in parameters, one in gradients, the rest in optimizer state, on a device of 80 GiB."""
    quarter = int(model_gib / 4 * GIB)
    return MemoryUse(
        host_peak_bytes=0,
        device_peak_bytes=int(peak_gib * GIB),
        device_total_bytes=80 * GIB,
        parameter_bytes=quarter,
        gradient_bytes=quarter,
        optimizer_bytes=2 * quarter,
    )


def check(use: MemoryUse | None, **facts: Any) -> Finding:
    ranks = (RankFacts(0, 10.0, exposed_ms=1.5), RankFacts(1, 10.0, exposed_ms=1.5))
    return NeedlessSharding().check(
        a_profile(**{"device": "cuda:0", "ranks": ranks, "memory": use, **SHARDED, **facts})
    )


def test_a_model_that_fits_on_each_rank_is_reported_with_the_memory_it_would_take() -> None:
    finding = check(memory(4.0, 20.0))
    assert finding.title == "10 % of a rank's memory would hold the model unsharded"
    assert (finding.state, finding.severity, finding.location) == (State.OPPORTUNITY, Severity.MEDIUM, HERE)
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.15)
    assert "`fully_shard(module, reshard_after_forward=False)`" in finding.advice
    assert "4096 MiB more" in finding.advice


def test_a_model_that_would_take_half_of_the_memory_is_sharded_rightly() -> None:
    assert check(memory(20.0, 20.0)).state is State.PASSED


def test_activations_that_leave_no_room_are_a_reason_to_shard() -> None:
    assert check(memory(4.0, 70.0)).state is State.PASSED


def test_of_a_sharded_optimizer_only_the_state_would_grow() -> None:
    zero = an_optimizer("ZeroRedundancyOptimizer")
    finding = check(memory(4.0, 20.0), roots=(a_root(),), optimizers=(zero,))
    assert "ZeroRedundancyOptimizer" in finding.advice and "2048 MiB more" in finding.advice


def test_ranks_on_the_cpu_share_the_memory_of_the_host() -> None:
    use = MemoryUse(host_peak_bytes=GIB, host_limit_bytes=16 * GIB, parameter_bytes=2 * GIB)
    assert check(use, device="cpu").state is State.PASSED
    use = MemoryUse(host_peak_bytes=GIB, host_limit_bytes=64 * GIB, parameter_bytes=2 * GIB)
    assert check(use, device="cpu").state is State.OPPORTUNITY


def test_without_sharding_ranks_or_memory_nothing_is_said() -> None:
    assert check(memory(4.0, 20.0), roots=(a_root(),)).state is State.NOT_APPLICABLE
    assert check(None).state is State.NOT_APPLICABLE
