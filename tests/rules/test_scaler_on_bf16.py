from typing import Any

from builders import a_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.profile import RunFacts
from advisor.rules.scaler_on_bf16 import ScalerOnBf16


def check(**run: Any) -> Finding:
    defaults = {"own_scaler": True, "scaler_on_bf16": True}
    return ScalerOnBf16().check(a_profile(phases_ms={}, run=RunFacts(**{**defaults, **run})))


def test_a_scaler_that_bfloat16_does_not_need_costs_its_time() -> None:
    finding = check(scaler_ms=1.2)
    assert finding.title == "12 % of each step goes to a gradient scaler that bfloat16 does not need"
    assert finding.ceiling is not None and finding.ceiling.share == 0.12
    assert finding.severity is Severity.MEDIUM
    assert "loss.backward(); optimizer.step()" in finding.advice


def test_a_scaler_that_costs_next_to_nothing_passes_with_the_number() -> None:
    finding = check(scaler_ms=0.2)
    assert finding.state is State.PASSED and finding.title.startswith("2.0 %")


def test_without_its_time_it_is_told_all_the_same() -> None:
    finding = check()
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.LOW)


def test_a_scaler_for_float16_passes() -> None:
    assert check(scaler_on_bf16=False).state is State.PASSED


def test_missing_facts_are_named() -> None:
    assert check(own_scaler=False).title == "gradient scaler: the program uses none"
    assert check(scaler_on_bf16=None).title.startswith("type that the scaler is used with")
