from typing import Any

from builders import a_device, a_gpu_profile, a_rich_profile, a_window

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import DeviceTime, Gap
from advisor.rules.idle_device import IdleDevice

LINE = Location("train.py", 61)


def a_run_with(**device: Any) -> Profile:
    return a_gpu_profile(window=a_window(device=a_device(**device)))


def test_an_idle_device_is_reported_with_what_the_host_ran() -> None:
    gaps = (Gap(0.4, "aten::item", LINE), Gap(2.5, "tokenize", Location("data.py", 5)))
    finding = IdleDevice().check(a_run_with(idle_share=0.3, busy_share=0.7, gaps=gaps))
    assert finding.state is State.OPPORTUNITY and finding.kind is Kind.WASTE
    assert finding.severity is Severity.HIGH
    assert finding.ceiling is not None and finding.ceiling.share == 0.3
    assert finding.location == Location("data.py", 5)
    assert finding.advice.startswith("Take `tokenize` at data.py:5 out of the step")
    assert [gap["ms"] for gap in finding.evidence["largest_gaps"]] == [2.5, 0.4]


def test_just_at_the_threshold_it_passes() -> None:
    finding = IdleDevice().check(a_run_with(idle_share=0.15, busy_share=0.85))
    assert finding.state is State.PASSED and finding.title.startswith("15 %")


def test_one_very_long_gap_is_reported_below_the_threshold() -> None:
    finding = IdleDevice().check(a_run_with(idle_share=0.12, gaps=(Gap(600.0, "save"),)))
    assert finding.state is State.OPPORTUNITY and finding.severity is Severity.MEDIUM


def test_gaps_of_which_nothing_is_known_need_another_recording() -> None:
    assert "with_stack=True" in IdleDevice().check(a_run_with(idle_share=0.3)).advice


def test_without_a_device_timeline_it_abstains() -> None:
    assert IdleDevice().check(a_rich_profile(window=a_window())).state is State.NOT_APPLICABLE


def test_just_above_the_threshold_it_is_reported() -> None:
    assert IdleDevice().check(a_run_with(idle_share=0.16)).severity is Severity.MEDIUM


def test_a_gap_of_less_than_half_a_second_is_no_finding_of_its_own() -> None:
    assert not IdleDevice().check(a_run_with(idle_share=0.12, gaps=(Gap(499.0, "save"),))).fired


def test_a_device_that_still_does_what_was_launched_before_the_recording_is_not_idle() -> None:
    gaps = (Gap(493.1, "aten::copy_"), Gap(0.24, "aten::embedding"))
    time = DeviceTime(987.3, 492.8, 0.0, 0.0, 494.5, (("launch", 0.7), ("before_recording", 493.1)))
    finding = IdleDevice().check(a_run_with(idle_share=0.5, gaps=gaps, time=time))
    assert finding.state is State.PASSED and finding.title.startswith("0.3 %")
    later = DeviceTime(693.1, 100.0, 0.0, 0.0, 593.1, (("launch", 100.0), ("before_recording", 493.1)))
    finding = IdleDevice().check(a_run_with(idle_share=0.86, gaps=gaps, time=later))
    assert finding.ceiling is not None and round(finding.ceiling.share, 2) == 0.5
    assert [gap["ms"] for gap in finding.evidence["largest_gaps"]] == [0.24]


def test_many_short_gaps_before_launches_blame_no_operator() -> None:
    gaps = (Gap(0.087, "aten::scaled_dot_product_attention"),)
    time = DeviceTime(3.9, 0.3, 0.0, 0.0, 3.6, (("launch", 3.4), ("synchronization", 0.2)))
    finding = IdleDevice().check(a_run_with(idle_share=0.92, gaps=gaps, time=time))
    assert "Launch fewer and larger kernels" in finding.advice
    assert finding.evidence["idle_ms"] == {"launch": 3.4, "synchronization": 0.2}
    waiting = DeviceTime(3.9, 0.3, 0.0, 0.0, 3.6, (("device", 3.4),))
    assert "other streams" in IdleDevice().check(a_run_with(idle_share=0.92, gaps=gaps, time=waiting)).advice
