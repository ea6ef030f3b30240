from typing import Any

import pytest
from builders import a_profile

from advisor.advice.advise import advise
from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import HostFacts
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.rules.thread_collapse import ThreadCollapse


def collapsed(host: HostFacts, **facts: Any) -> Profile:
    return a_profile(phases_ms={"forward": 10.0}, run=RunFacts(num_threads=4), host=host, **facts)


def of(finding: Finding) -> tuple[State, Severity | None]:
    return finding.state, finding.severity


def test_a_single_thread_that_is_faster_is_the_ceiling() -> None:
    finding = ThreadCollapse().check(
        collapsed(HostFacts(cpu_per_wall=1.2, other_cpus=0.9, one_thread_step_ms=2.0))
    )
    assert of(finding) == (State.OPPORTUNITY, Severity.HIGH)
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.8)
    assert finding.title.startswith("80 % of each step goes when one thread computes alone")
    assert "`OMP_WAIT_POLICY=PASSIVE`" in finding.advice


def test_without_other_load_one_thread_is_the_advice() -> None:
    finding = ThreadCollapse().check(
        collapsed(HostFacts(cpu_per_wall=1.2, other_cpus=0.0, one_thread_step_ms=5.0))
    )
    assert "`torch.set_num_threads(1)`" in finding.advice


def test_the_finding_is_not_demoted_by_the_disturbance_that_it_is() -> None:
    profile = collapsed(HostFacts(cpu_per_wall=1.2, other_cpus=0.9, one_thread_step_ms=2.0))
    (finding,) = advise(profile, {"thread_collapse": ThreadCollapse()})
    assert of(finding) == (State.OPPORTUNITY, Severity.HIGH)


def test_idle_threads_beside_other_load_are_a_suspicion_until_one_thread_was_timed() -> None:
    finding = ThreadCollapse().check(collapsed(HostFacts(cpu_per_wall=1.2, other_cpus=0.9)))
    assert of(finding) == (State.DIAGNOSTIC, Severity.LOW)
    assert finding.title == "1.2 CPUs are busy with 4 threads"


def test_a_single_thread_that_is_not_faster_clears_the_suspicion() -> None:
    finding = ThreadCollapse().check(
        collapsed(HostFacts(cpu_per_wall=1.2, other_cpus=0.9, one_thread_step_ms=10.5))
    )
    assert finding.state is State.PASSED and "not faster" in finding.title


def test_busy_threads_are_right() -> None:
    finding = ThreadCollapse().check(collapsed(HostFacts(cpu_per_wall=3.8, other_cpus=0.9)))
    assert finding.state is State.PASSED


def test_small_operators_alone_keep_few_threads_busy_and_are_right() -> None:
    finding = ThreadCollapse().check(collapsed(HostFacts(cpu_per_wall=1.1, other_cpus=0.0)))
    assert finding.state is State.PASSED


def test_a_host_that_drives_a_gpu_is_not_judged() -> None:
    finding = ThreadCollapse().check(collapsed(HostFacts(cpu_per_wall=1.0, other_cpus=0.9), device="cuda:0"))
    assert finding.state is State.NOT_APPLICABLE


def test_without_cpu_time_nothing_is_said() -> None:
    assert ThreadCollapse().check(collapsed(HostFacts())).state is State.NOT_APPLICABLE
