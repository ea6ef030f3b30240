import pytest
from builders import a_device, a_gpu_profile, a_machine, a_rich_profile, a_window

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import Copies
from advisor.rules.small_copies import SmallCopies


def check(*copies: Copies) -> Finding:
    return SmallCopies().check(a_gpu_profile(window=a_window(device=a_device(copies=copies))))


def test_equal_copies_in_a_row_cost_the_gaps_between_them() -> None:
    finding = check(Copies("h2d", 8.0, 0.1, 8000.0, like=8, like_gap_ms=0.7))
    assert finding.title == "7.0 % of each step starts 8 copies between host and device"
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.07)
    assert finding.ceiling.source == "model"
    assert finding.severity is Severity.LOW
    assert "torch.cat" in finding.advice
    assert finding.evidence["h2d"]["bytes_per_copy"] == 1000


def test_gaps_that_are_short_pass_with_the_number() -> None:
    finding = check(Copies("h2d", 8.0, 0.1, 8000.0, like=8, like_gap_ms=0.05))
    assert finding.state is State.PASSED and finding.title.startswith("0.5 %")


def test_many_copies_of_other_sizes_cost_a_launch_each() -> None:
    finding = check(Copies("h2d", 101.0, 0.3, 8000.0))
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.05)


def test_ten_copies_that_are_not_alike_pass() -> None:
    assert check(Copies("h2d", 10.0, 0.1, 8000.0)).title == "10 copies between host and device per step"


def test_values_read_one_by_one_are_to_be_stacked() -> None:
    finding = check(Copies("h2d", 1.0, 0.1, 8e6), Copies("d2h", 6.0, 0.1, 24.0, like=6, like_gap_ms=1.0))
    assert finding.fired and "torch.stack(values)" in finding.advice


def test_a_step_without_copies_passes() -> None:
    assert check().title == "0 copies between host and device per step"


@pytest.mark.parametrize("profile", [Profile(a_machine()), a_rich_profile(window=a_window())])
def test_without_a_device_nothing_is_said(profile: Profile) -> None:
    assert SmallCopies().check(profile).title == "device timeline: needs a GPU"
