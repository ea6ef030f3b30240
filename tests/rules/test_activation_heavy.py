from typing import Any

from builders import a_gpu_profile, a_machine, a_rich_profile, a_root

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import MemoryUse
from advisor.profiles.facts.profile import Profile
from advisor.rules.activation_heavy import ActivationHeavy

GIB = 2**30


def on_gpu(peak_gib: int, activations_gib: int, **facts: Any) -> Profile:
    memory = MemoryUse(
        host_peak_bytes=GIB,
        device_peak_bytes=peak_gib * GIB,
        device_total_bytes=100 * GIB,
        activation_bytes=activations_gib * GIB,
    )
    return a_gpu_profile(memory=memory, **facts)


def test_activations_that_keep_the_batch_from_doubling_are_headroom() -> None:
    finding = ActivationHeavy().check(on_gpu(60, 45))
    assert finding.state is State.DIAGNOSTIC and finding.kind is Kind.HEADROOM
    assert finding.severity is Severity.MEDIUM and finding.ceiling is None
    assert finding.title == "75 % of peak memory holds activations, and a doubled batch would not fit"
    assert "use_reentrant=False" in finding.advice and "twice" in finding.advice
    assert finding.evidence["doubled_batch_share"] == 1.05


def test_where_a_doubled_batch_fits_memory_limits_nothing() -> None:
    finding = ActivationHeavy().check(on_gpu(50, 42))
    assert finding.state is State.PASSED and "92 % of memory" in finding.title


def test_just_below_the_threshold_passes() -> None:
    assert ActivationHeavy().check(on_gpu(100, 59)).state is State.PASSED


def test_on_a_cpu_the_limit_is_the_hosts() -> None:
    memory = MemoryUse(host_peak_bytes=12 * GIB, activation_bytes=10 * GIB)
    machine = a_machine(memory_bytes=16 * GIB)
    assert ActivationHeavy().check(a_rich_profile(machine, memory=memory)).state is State.DIAGNOSTIC
    large = a_machine(memory_bytes=64 * GIB)
    assert ActivationHeavy().check(a_rich_profile(large, memory=memory)).state is State.PASSED


def test_a_program_that_checkpoints_is_not_told_to() -> None:
    finding = ActivationHeavy().check(on_gpu(60, 45, roots=(a_root(checkpointed=True),)))
    assert finding.state is State.NOT_APPLICABLE


def test_without_its_facts_it_abstains() -> None:
    unknown = MemoryUse(host_peak_bytes=GIB, activation_bytes=GIB)
    assert ActivationHeavy().check(a_gpu_profile(memory=unknown)).state is State.NOT_APPLICABLE
