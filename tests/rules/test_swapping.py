from typing import Any

import pytest
from builders import a_loader, a_machine, a_profile

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import MemoryUse
from advisor.profiles.facts.profile import Profile, StepPhases
from advisor.rules.swapping import Swapping


def stepping(**facts: Any) -> Profile:
    loader = facts.pop("loader", None)
    return a_profile(phases_ms={"forward": 9.0}, memory=MemoryUse(1, **facts), loader=loader)


def test_pages_read_back_from_swap_cost_their_number_times_a_read() -> None:
    finding = Swapping().check(
        stepping(swapped_in_bytes=10**7, major_faults_per_step=30.0, loader=a_loader(num_workers=4))
    )
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.3)
    assert (finding.ceiling.source, finding.severity) == ("model", Severity.MEDIUM)
    assert finding.title == "30 % of each step reads pages back from disk"
    assert "num_workers=2" in finding.advice


def test_without_workers_a_smaller_batch_is_advised_and_its_price_said() -> None:
    finding = Swapping().check(stepping(swapped_in_bytes=10**7, major_faults_per_step=30.0))
    assert "batch_size" in finding.advice and "changes training" in finding.advice


def test_a_few_pages_pass() -> None:
    finding = Swapping().check(stepping(swapped_in_bytes=8192, major_faults_per_step=0.1))
    assert finding.state is State.PASSED


def test_bytes_stand_for_faults_that_were_not_counted() -> None:
    finding = Swapping().check(stepping(swapped_in_bytes=4096 * 20 * 50))  # 20 steps, 50 pages each
    assert finding.evidence["pages_read_per_step"] == 50.0


@pytest.mark.parametrize(("faults", "state"), [(0.9, State.PASSED), (1.1, State.OPPORTUNITY)])
def test_a_fault_in_each_step_counts_in_full_memory(faults: float, state: State) -> None:
    memory = MemoryUse(1, swapped_in_bytes=0, major_faults_per_step=faults, host_used_share=0.95)
    profile = a_profile(phases=StepPhases(step_ms=1.0, steps=20), memory=memory)
    assert Swapping().check(profile).state is state


def test_no_swapping_and_no_faults_pass() -> None:
    finding = Swapping().check(stepping(swapped_in_bytes=0, major_faults_per_step=0.2))
    assert (finding.state, finding.title) == (State.PASSED, "0.2 pages per step read from disk")


@pytest.mark.parametrize(("used", "state"), [(0.79, State.PASSED), (0.81, State.OPPORTUNITY)])
def test_faults_on_files_count_only_where_memory_is_full(used: float, state: State) -> None:
    profile = stepping(swapped_in_bytes=0, major_faults_per_step=30.0, host_used_share=used)
    assert Swapping().check(profile).state is state


@pytest.mark.parametrize(
    "profile",
    [
        Profile(a_machine()),
        stepping(),
        stepping(major_faults_per_step=30.0),
        a_profile(memory=MemoryUse(1, swapped_in_bytes=10**7)),
    ],
    ids=["nothing", "not counted", "use of memory unknown", "no steps"],
)
def test_without_the_facts_nothing_is_said(profile: Profile) -> None:
    assert Swapping().check(profile).state is State.NOT_APPLICABLE
