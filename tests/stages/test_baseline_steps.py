"""What is measured of an unchanged program follows from its step and the budget."""

import math
import random
import statistics
from collections.abc import Callable
from typing import Any

import pytest

from advisor.base.settings import Objective, Settings, TargetRequest
from advisor.stages.baseline_steps import (
    AA_QUADS,
    AA_SHARE,
    IN_A_ROW,
    LEAST_SLOTS,
    MOST_SHARE,
    MOST_SLOTS,
    QUIET,
    baseline_plan,
    is_quiet,
    quads_in_a_row,
    spread_of,
)
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.knobs import KNOBS
from advisor.tuners.trial.messages import Slot


def planned(step_s: float, budget_s: float, *, objective: Objective = "throughput", **arena: Any) -> Any:
    target = TargetRequest(kind="script", name="train.py")
    settings = Settings(target=target, budget_s=budget_s, objective=objective)
    return baseline_plan(Arena(None, KNOBS, {}, step_s=step_s, **arena), settings)  # type: ignore[arg-type]  # nothing is started


def test_requests_get_slots_in_a_row_and_quads_should_these_not_be_quiet() -> None:
    plan = planned(0.02, 300.0, objective="latency")
    assert plan.slots == IN_A_ROW and AA_QUADS[0] <= QUIET[0] <= plan.quads <= AA_QUADS[1]


@pytest.mark.parametrize("step_s", [0.02, 0.5])
def test_twenty_slots_in_a_row_tell_parts_and_noise_of_steps(step_s: float) -> None:
    plan = planned(step_s, 600.0)
    assert (plan.slots, plan.quads) == (MOST_SLOTS, 0)


@pytest.mark.parametrize("step_s", [2.0, 5.0, 10.0, 30.0])
@pytest.mark.parametrize("budget_s", [240.0, 600.0, 1800.0])
@pytest.mark.parametrize("objective", ["throughput", "latency"])
def test_long_steps_get_as_many_as_their_budget_has_room_for(
    step_s: float, budget_s: float, objective: Objective
) -> None:
    plan = planned(step_s, budget_s, objective=objective)
    arena = Arena(None, KNOBS, {}, step_s=step_s)  # type: ignore[arg-type]  # nothing is started
    if plan.quads:
        seconds = plan.slots * arena.steps() * step_s + plan.quads * arena.quad_s
        assert seconds <= MOST_SHARE * budget_s
    else:
        assert plan.slots == LEAST_SLOTS or plan.slots * step_s <= AA_SHARE * budget_s


def test_slots_hold_whole_periods_of_optimizers() -> None:
    arena = Arena(None, KNOBS, {}, step_s=10.0, period=2)  # type: ignore[arg-type]  # nothing is started
    assert arena.steps() == 2 and planned(10.0, 3000.0, period=2).slots == 12


@pytest.mark.parametrize(
    ("times", "ratios"),
    [
        (lambda place: 1.0, [0.0, 0.0]),
        (lambda place: math.exp(0.1 * place), [0.0, 0.0]),  # a drift cancels
        (lambda place: 2.0 if place == 1 else 1.0, [-math.log(2) / 2, math.log(2) / 2]),
    ],
)
def test_slots_in_a_row_make_quads_that_overlap(times: Callable[[int], float], ratios: list[float]) -> None:
    slots = [Slot((times(place),)) for place in range(LEAST_SLOTS)]
    assert quads_in_a_row(slots) == pytest.approx(ratios)


@pytest.mark.parametrize("slots", [LEAST_SLOTS, 12, 20])
def test_the_spread_of_few_slots_is_that_of_a_quad(slots: int) -> None:
    source = random.Random(1)
    found = [
        spread_of(quads_in_a_row([Slot((math.exp(source.gauss(0.0, 0.05)),)) for _ in range(slots)]))
        for _ in range(300)
    ]
    assert statistics.fmean(found) == pytest.approx(0.05, rel=0.2)


@pytest.mark.parametrize(
    ("spread", "quads", "quiet"), [(0.005, 8, True), (0.005, 7, False), (0.04, 24, False)]
)
def test_a_machine_is_quiet_once_quads_spread_by_less_than_is_ever_told_apart(
    spread: float, quads: int, quiet: bool
) -> None:
    source = random.Random(2)
    found = [is_quiet([source.gauss(0.0, spread) for _ in range(quads)]) for _ in range(200)]
    assert statistics.fmean(found) == pytest.approx(float(quiet), abs=0.02)


def test_a_rare_outlier_among_quiet_quads_asks_for_more() -> None:
    assert is_quiet([0.002] * 8) and not is_quiet([0.002] * 7 + [0.2])
