from typing import Any

import pytest
from builders import a_gpu_profile, a_machine, a_rich_profile, a_root, a_window, an_op

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import MemoryUse
from advisor.profiles.facts.profile import Profile
from advisor.rules.needless_checkpointing import NeedlessCheckpointing

GIB = 2**30
MEMORY = MemoryUse(
    host_peak_bytes=GIB, device_peak_bytes=8 * GIB, device_total_bytes=100 * GIB, activation_bytes=4 * GIB
)


def a_run_with(recompute_ms: float = 2.5, blocks: int = 12, **facts: Any) -> Profile:
    window = a_window(an_op(), recompute_ms=recompute_ms)
    roots = (a_root(repeated_blocks=blocks, checkpointed=True),)
    return a_gpu_profile(**{"window": window, "memory": MEMORY, "roots": roots, **facts})


def test_recomputing_with_memory_to_spare_is_waste() -> None:
    finding = NeedlessCheckpointing().check(a_run_with())
    assert finding.state is State.OPPORTUNITY and finding.kind is Kind.WASTE
    assert finding.severity is Severity.HIGH
    assert finding.ceiling is not None and finding.ceiling.share == 0.25
    assert finding.title == "25 % of each step computes activations a second time"
    assert "from 8 to at most 52 GiB" in finding.advice
    assert finding.evidence["peak_without_bytes"] == 52 * GIB


def test_where_memory_might_not_hold_them_checkpointing_is_right() -> None:
    finding = NeedlessCheckpointing().check(a_run_with(blocks=19))
    assert finding.state is State.PASSED and "80 % of memory" in finding.title


def test_a_small_share_passes_with_its_number() -> None:
    finding = NeedlessCheckpointing().check(a_run_with(recompute_ms=0.1))
    assert finding.state is State.PASSED and finding.title.startswith("1.0 %")


def test_on_a_cpu_the_limit_is_the_hosts() -> None:
    memory = MemoryUse(host_peak_bytes=2 * GIB, activation_bytes=GIB)
    facts = {"window": a_window(an_op(), recompute_ms=2.5), "roots": (a_root(repeated_blocks=4),)}
    large = a_rich_profile(a_machine(memory_bytes=16 * GIB), memory=memory, **facts)
    small = a_rich_profile(a_machine(memory_bytes=6 * GIB), memory=memory, **facts)
    assert NeedlessCheckpointing().check(large).state is State.OPPORTUNITY
    assert NeedlessCheckpointing().check(small).state is State.PASSED


@pytest.mark.parametrize(
    "profile",
    [
        Profile(a_machine()),
        a_run_with(memory=None),
        a_run_with(memory=MemoryUse(host_peak_bytes=GIB, activation_bytes=GIB)),
        a_run_with(blocks=0),
    ],
    ids=["nothing", "no memory", "no limit", "no count of blocks"],
)
def test_without_its_facts_it_abstains(profile: Profile) -> None:
    assert NeedlessCheckpointing().check(profile).state is State.NOT_APPLICABLE


def test_just_below_the_limit_it_is_reported() -> None:
    assert NeedlessCheckpointing().check(a_run_with(blocks=18)).fired
