"""Warm-up: long until the time of a step has settled, and short where each step takes seconds."""

from collections.abc import Iterable
from typing import Any

import pytest

from advisor.tuners.comparing.warm_up import MOST_LONG, MOST_WINDOWS, WARMUP_STEPS, warmed_up
from advisor.tuners.trial.messages import Slot


class Paper:
    """A process whose steps take given seconds, the last of them for ever."""

    def __init__(self, step_s: Iterable[float]) -> None:
        self._step_s = list(step_s)
        self.made, self.now = 0, 0.0

    def slot(self, steps: int, *, drop: int) -> Slot:
        spent = [self._step_s[min(self.made + each, len(self._step_s) - 1)] for each in range(steps)]
        self.made, self.now = self.made + steps, self.now + sum(spent)
        return Slot(tuple(spent))


def warmed(step_s: Iterable[float], period: int = 1, budget_s: float = 1e9) -> tuple[Any, bool, int]:
    paper = Paper(step_s)
    windows, stable = warmed_up(paper, period, budget_s, lambda: paper.now)  # type: ignore[arg-type]  # it has slots
    return windows, stable, paper.made


def test_short_steps_are_told_by_windows_after_one_that_does_not_count() -> None:
    windows, stable, made = warmed([0.25, 0.1])
    assert stable and [len(window.step_s) for window in windows] == [WARMUP_STEPS] * 2
    assert made == 1 + 2 * WARMUP_STEPS


def test_two_long_steps_that_agree_suffice() -> None:
    windows, stable, made = warmed([10.0, 10.3])
    assert stable and made == 2 and windows[-1].mean_s == 10.3


def test_long_steps_that_do_not_agree_are_few() -> None:
    assert warmed([10.0, 20.0, 10.0, 20.0, 10.0, 20.0, 10.0])[1:] == (False, MOST_LONG)


def test_one_step_that_compiles_makes_no_program_of_long_steps() -> None:
    windows, stable, _ = warmed([20.0, 0.1])
    assert stable and windows[-1].mean_s == pytest.approx(0.1)


def test_windows_hold_whole_periods() -> None:
    windows, stable, _ = warmed([10.0, 30.0, 10.0, 30.0, 10.0, 30.0], period=2)
    assert stable and [len(window.step_s) for window in windows] == [2, 2]


@pytest.mark.parametrize("budget_s", [1.0, 1e9])
def test_what_never_settles_is_cut_short(budget_s: float) -> None:
    windows, stable, _ = warmed([0.25 * 0.8**each for each in range(100)], budget_s=budget_s)
    assert not stable and len(windows) <= MOST_WINDOWS and (len(windows) < MOST_WINDOWS) == (budget_s < 1e9)
