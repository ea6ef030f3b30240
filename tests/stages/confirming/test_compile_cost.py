"""Compiling pays for itself or is left out; what stands beside it pays for none of it."""

import math
from typing import Any

import pytest
from confirmation_builder import COMPILE_S, STEP_S, confirmed, some_settings

from advisor.result import wording
from advisor.stages.confirming.compile_cost import break_even_steps
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.knob import Value
from advisor.tuners.search import ablate
from advisor.tuners.search.removal import Removal
from advisor.tuners.space.configuration import Configuration

BESIDE: dict[str, Value] = {"execution": "compile", "amp": "bf16"}


def test_a_second_that_each_step_saves_pays_for_one_of_compiling() -> None:
    assert break_even_steps(30.0, 3.0, whole=1.5) == 30
    assert break_even_steps(None, 3.0, whole=1.5) is None
    assert break_even_steps(30.0, 3.0, whole=None) is None
    assert break_even_steps(30.0, 3.0, whole=0.9) is None


def test_other_changes_pay_for_no_compilation() -> None:
    assert break_even_steps(30.0, 3.0, whole=3.0, alone=1.5) == 60
    assert break_even_steps(30.0, 3.0, whole=3.0, alone=1.0) is None


def decided(monkeypatch: pytest.MonkeyPatch, gain: float, planned: int, **known: Any) -> Any:
    """Of bf16 and compiling, which alone makes a step ``gain`` times as fast."""
    estimate = Estimate(math.log(gain), math.log(gain) - 0.01, math.log(gain) + 0.01, 0.99, 4, 1)
    removals = [Removal(name, estimate, needed=True) for name in BESIDE]
    monkeypatch.setattr(ablate, "removals", lambda *of, **how: (Configuration(BESIDE), removals))
    settings = some_settings(known.pop("objective", "throughput"), steps_planned=planned)
    return confirmed(
        monkeypatch, settings, STEP_S / 2, nominee=BESIDE, compiled_s=lambda config: COMPILE_S, **known
    )


def test_compiling_that_is_not_won_back_takes_nothing_else_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = decided(monkeypatch, 1.1, planned=3000)  # 30 s at 9 ms saved of each step
    assert outcome.verdict == "change" and outcome.config == {"execution": "eager", "amp": "bf16"}
    assert outcome.rejected["execution"] == f"{wording.UNPAID} within 3000 steps"
    assert not outcome.reason and outcome.break_even_steps(STEP_S) is None


def test_compiling_that_is_won_back_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = decided(monkeypatch, 1.1, planned=10_000)
    assert outcome.verdict == "change" and outcome.config == BESIDE and not outcome.rejected
    assert outcome.break_even_steps(STEP_S) == 6000  # a step takes 50 ms by both, 55 by bf16 alone


def test_whoever_asks_for_compiling_or_for_memory_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decided(monkeypatch, 1.1, planned=100, objective="memory").config == BESIDE


def test_nothing_is_left_to_confirm_where_all_that_helps_is_compiling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    estimate = Estimate(math.log(1.1), 0.08, 0.11, 0.99, 4, 1)
    removals = [Removal("execution", estimate, needed=True)]
    reduced = Configuration({**BESIDE, "amp": "off"})
    monkeypatch.setattr(ablate, "removals", lambda *of, **how: (reduced, removals))
    settings = some_settings("throughput", steps_planned=3000)
    outcome = confirmed(
        monkeypatch, settings, STEP_S / 2, nominee=BESIDE, compiled_s=lambda config: COMPILE_S
    )
    assert outcome.verdict == "keep" and outcome.reason == f"{wording.UNPAID} within 3000 steps"
    assert outcome.decision is None


def test_the_first_compilation_that_the_search_saw_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate's run finds its cache filled."""
    settings = some_settings("throughput")
    assert confirmed(monkeypatch, settings, STEP_S / 2, gate_s=2.0).compile_s == 2.0
    seen = confirmed(monkeypatch, settings, STEP_S / 2, gate_s=2.0, compiled_s=lambda config: 28.3)
    assert seen.compile_s == 28.3


def test_what_compiles_anyway_is_charged_to_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    nominee: dict[str, Value] = {"execution": "eager", "amp": "bf16"}  # as under --fix, where all compile
    outcome = confirmed(
        monkeypatch, some_settings("throughput", steps_planned=10), STEP_S / 2, nominee=nominee,
        compiled_s=lambda config: 28.3,
    )  # fmt: skip
    assert outcome.verdict == "change" and outcome.compile_s is None
    assert outcome.break_even_steps(STEP_S) is None


def test_a_trace_has_no_compilation_to_win_back(monkeypatch: pytest.MonkeyPatch) -> None:
    nominee: dict[str, Value] = {"execution": "jit_trace", "amp": "off"}
    settings = some_settings("throughput", steps_planned=10)
    outcome = confirmed(monkeypatch, settings, STEP_S / 2, nominee=nominee, gate_s=0.0)
    assert outcome.verdict == "change" and outcome.compile_s is None


@pytest.mark.parametrize(("planned", "stays"), [(3000, False), (100_000, True)])
def test_compiling_whose_own_gain_was_not_measured_must_cost_little(
    monkeypatch: pytest.MonkeyPatch, planned: int, stays: bool
) -> None:
    """Others would pay for it: 30 s are a tenth of 3,000 steps of 0.1 s, and nothing of 100,000."""
    monkeypatch.setattr(ablate, "removals", lambda *of, **how: (Configuration(BESIDE), []))
    settings = some_settings("throughput", steps_planned=planned)
    outcome = confirmed(
        monkeypatch, settings, STEP_S / 2, nominee=BESIDE, compiled_s=lambda config: COMPILE_S
    )
    assert outcome.verdict == "change" and (outcome.config["execution"] == "compile") is stays
    assert ("execution" in outcome.rejected) is not stays
