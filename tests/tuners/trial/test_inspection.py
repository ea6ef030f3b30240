"""Hot lines are met in more steps than the costly taps stay for."""

from types import SimpleNamespace
from typing import cast

import pytest

from advisor.profiles.hooks.step.clock import Clock, Step
from advisor.profiles.hooks.step.lineage import STEPS
from advisor.profiles.hooks.watch import Watch
from advisor.tuners.trial.tasks import Inspection

STEP = Step(1, "mark", 10**6, (), frozenset(), 0, 0, "", 0)


def nothing() -> None:
    """Values are followed by others."""


class Noted:
    """Stands for a watch: notes what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []
        self.lineage = SimpleNamespace(start=nothing, next_step=nothing, stop=nothing)

    def sample(self, on: bool) -> None:
        self.asked.append(("sample", on))

    def inspect(self, on: bool, *, steps: int = 0) -> None:
        self.asked.append(("inspect", on))


def inspecting(noted: Noted, steps: int, limit_s: float = 60.0, **options: int | bool) -> Inspection:
    clock = Clock(lambda step: None)
    inspection = Inspection(cast(Watch, noted), clock, steps, limit_s, **options)  # type: ignore[arg-type]
    inspection.begin()
    return inspection


def steps_taken(inspection: Inspection) -> int:
    count = 1
    while not inspection.take(STEP):
        count += 1
    return count


def test_the_costly_taps_come_after_the_steps_in_which_hot_lines_alone_are_met() -> None:
    noted = Noted()
    assert steps_taken(inspecting(noted, 3, sampled=5)) == 8 + STEPS
    assert noted.asked == [("sample", True), ("inspect", True), ("inspect", False)]


def test_without_such_steps_they_are_there_at_once() -> None:
    noted = Noted()
    assert steps_taken(inspecting(noted, 3)) == 3 + STEPS
    assert noted.asked == [("inspect", True), ("inspect", False)]


@pytest.mark.parametrize(("exact", "taken"), [(False, 2), (True, 8 + STEPS)])
def test_of_slow_steps_fewer_are_taken_unless_ranks_take_equally_many(exact: bool, taken: int) -> None:
    assert steps_taken(inspecting(Noted(), 3, limit_s=0.0, sampled=5, exact=exact)) == taken


def test_a_program_that_ends_before_leaves_no_sampler_behind() -> None:
    noted = Noted()
    inspection = inspecting(noted, 3, sampled=5)
    inspection.take(STEP)
    inspection.finish()
    assert noted.asked == [("sample", True), ("sample", False)]
