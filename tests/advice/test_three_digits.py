import pytest

from advisor.advice.rule import three_digits


@pytest.mark.parametrize(
    ("value", "told"), [(0.0123, "0.0123"), (99.96, "100"), (999.7, "1,000"), (13_300.4, "13,300")]
)
def test_three_digits_never_have_an_exponent(value: float, told: str) -> None:
    assert three_digits(value) == told
