from typing import Any

import pytest
from builders import a_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.profile import RunFacts
from advisor.rules.skipped_scaler_steps import SkippedScalerSteps


def check(**run: Any) -> Finding:
    defaults = {"own_scaler": True, "steps_seen": 500, "scaler_updates": 400}
    return SkippedScalerSteps().check(a_profile(run=RunFacts(**{**defaults, **run})))


def test_many_skipped_updates_are_a_share_of_the_run() -> None:
    finding = check(scaler_skipped=60)
    assert finding.title == "15 % of the updates are skipped by the gradient scaler"
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.15)
    assert finding.ceiling.of == "run"
    assert finding.severity is Severity.MEDIUM
    assert "torch.bfloat16" in finding.advice and "rounds" in finding.advice


def test_one_in_twenty_passes_with_the_number() -> None:
    finding = check(scaler_skipped=20)
    assert finding.state is State.PASSED and finding.title.startswith("5.0 %")
    assert check(scaler_skipped=21).fired


def test_a_single_skip_is_an_attempt_at_a_larger_scale() -> None:
    assert check(steps_seen=120, scaler_updates=20, scaler_skipped=1).state is State.PASSED


@pytest.mark.parametrize("run", [{"steps_seen": 110, "scaler_updates": 110}, {"scaler_updates": 19}])
def test_the_scale_may_settle_first(run: dict[str, int]) -> None:
    assert check(scaler_skipped=15, **run).state is State.NOT_APPLICABLE


def test_missing_facts_are_named() -> None:
    assert check(own_scaler=False).title == "gradient scaler: the program uses none"
