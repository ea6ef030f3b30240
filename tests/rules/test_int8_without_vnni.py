import pytest
from builders import a_served_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.served import Int8Facts
from advisor.rules.int8_without_vnni import Int8WithoutVnni


def check(int8_ms: float, float32_ms: float = 2.0, vnni: bool | None = False) -> Finding:
    int8 = Int8Facts(3, 0.0, "", int8_ms, float32_ms, vnni)
    return Int8WithoutVnni().check(a_served_profile(int8=int8))


def test_layers_that_are_slower_in_8_bits_are_waste_by_the_time_that_they_lose() -> None:
    finding = check(6.0)
    assert finding.state is State.OPPORTUNITY and finding.severity is Severity.MEDIUM
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.4)
    assert finding.title.startswith("3.00 times") and "float32" in finding.advice


@pytest.mark.parametrize("int8_ms", [1.0, 2.5])
def test_layers_that_gain_or_lose_little_pass(int8_ms: float) -> None:
    assert check(int8_ms).state is State.PASSED


@pytest.mark.parametrize("vnni", [True, None])
def test_a_processor_that_has_units_or_does_not_say_is_not_judged(vnni: bool | None) -> None:
    assert check(6.0, vnni=vnni).state is State.NOT_APPLICABLE


def test_a_session_whose_layers_were_not_timed_is_not_judged() -> None:
    assert check(0.0, 0.0).state is State.NOT_APPLICABLE
