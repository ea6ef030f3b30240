from builders import a_profile, a_served_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.served import Int8Facts
from advisor.rules.int8_saturation import Int8Saturation


def check(error: float, vnni: bool | None = False) -> Finding:
    int8 = Int8Facts(3, error, "encoder.1", 1.0, 1.0, vnni)
    return Int8Saturation().check(a_served_profile(int8=int8))


def test_a_kernel_that_is_not_what_its_weights_say_is_a_risk_that_names_the_layer() -> None:
    finding = check(0.18)
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.HIGH)
    assert finding.title.endswith("sums of 16 bits saturate") and "reduce_range=True" in finding.advice
    assert finding.evidence == {"error": 0.18, "worst_layer": "encoder.1", "int8_layers": 3}


def test_a_processor_with_units_is_not_said_to_saturate() -> None:
    assert check(0.18, vnni=True).fired and "saturate" not in check(0.18, vnni=True).title


def test_what_rounding_explains_passes() -> None:
    assert check(0.012).state is State.PASSED


def test_without_layers_of_8_bits_nothing_is_judged() -> None:
    assert Int8Saturation().check(a_served_profile()).state is State.NOT_APPLICABLE
    assert Int8Saturation().check(a_profile()).state is State.NOT_APPLICABLE
