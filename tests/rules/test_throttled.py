from typing import Any

from builders import a_profile

from advisor.advice.finding import Finding, Kind, Severity, State
from advisor.profiles.facts.observed import HostFacts
from advisor.profiles.facts.profile import RunFacts
from advisor.rules.throttled import Throttled


def check(threads: int = 4, **host: Any) -> Finding:
    return Throttled().check(a_profile(run=RunFacts(num_threads=threads), host=HostFacts(**host)))


def test_a_quota_that_is_used_up_is_reported() -> None:
    finding = check(throttled_share=0.4)
    assert finding.title == "1 of 1 limits reached: the cgroup's CPU quota was hit in 40 % of its periods"
    assert (finding.state, finding.severity, finding.kind) == (State.DIAGNOSTIC, Severity.MEDIUM, Kind.RISK)
    assert "fewer than 4 threads" in finding.advice


def test_one_thread_can_only_ask_for_more_quota() -> None:
    assert check(threads=1, throttled_share=0.4).advice.startswith("Raise the container's CPU quota")


def test_a_hot_device_with_a_low_clock_is_reported() -> None:
    finding = check(clock_share=0.6, gpu_temperature_c=88.0, throttled_share=0.0)
    assert finding.title.startswith("2 of 3 limits reached")
    assert "nvidia-smi" in finding.advice


def test_a_device_near_its_limits_passes() -> None:
    finding = check(clock_share=0.75, gpu_temperature_c=84.0, throttled_share=0.05)
    assert (finding.state, finding.title) == (State.PASSED, "0 of 3 limits reached")


def test_without_quota_and_clock_nothing_is_said() -> None:
    assert check().state is State.NOT_APPLICABLE
