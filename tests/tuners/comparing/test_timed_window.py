"""Which window of the profiler counts, where other load comes and goes around it."""

import math
import time
from pathlib import Path

import pytest

from advisor.profiles.hooks.recorder import Plan
from advisor.stages.diagnosing.diagnosis import Diagnosis, usual_s
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.knobs import KNOBS
from advisor.tuners.trial.look_messages import Record, Recorded
from advisor.tuners.trial.messages import Slot


class Paper:
    """A process on paper whose normal steps take what it is told, one slot after the other."""

    folder = Path("nowhere")

    def __init__(self, *step_ms: float) -> None:
        self._slots = iter(step_ms)
        self.windows = 0

    def slot(self, steps: int, *, drop: int) -> Slot:
        return Slot((next(self._slots) / 1000,) * steps)

    def ask(self, command: Record, answer: type[Recorded], wait_s: float) -> Recorded:
        self.windows += 1
        return Recorded(f"{self.windows}", (), (), ())


def chosen(session: Paper, *, max_steps: int | None = None, piloted: int = 1) -> tuple[int, float]:
    arena = Arena(None, KNOBS, {}, max_steps=max_steps, step_s=0.01)  # type: ignore[arg-type]  # starts nothing
    diagnosis = Diagnosis(lambda: None, arena, time.monotonic() + 60, None)  # type: ignore[arg-type,return-value]
    diagnosis.wall_ns = [10_000_000] * 10
    pilot = Recorded("0", (10_000_000,) * piloted, (), ())
    recorded, clean_step_ms = diagnosis._timed(session, Plan(2), 1, pilot)  # type: ignore[arg-type]
    return int(recorded.path), clean_step_ms


def test_one_window_is_enough_where_the_steps_around_it_are_alike() -> None:
    session = Paper(10.0, 10.2)
    number, clean_step_ms = chosen(session)
    assert (number, session.windows) == (1, 1) and clean_step_ms == pytest.approx(10.1)


def test_the_pilot_is_enough_where_it_is_as_long() -> None:
    session = Paper(10.2)
    number, clean_step_ms = chosen(session, piloted=2)
    assert (number, session.windows) == (0, 0) and clean_step_ms == pytest.approx(10.1)


def test_a_window_in_which_the_machine_changed_is_recorded_again() -> None:
    session = Paper(10.0, 14.0, 14.1)
    number, clean_step_ms = chosen(session)
    assert (number, session.windows) == (2, 2) and clean_step_ms == pytest.approx(14.05)


def test_of_three_windows_the_one_whose_sides_agree_best_counts() -> None:
    session = Paper(10.0, 14.0, 13.0, 10.0)
    number, clean_step_ms = chosen(session)
    assert (number, session.windows) == (2, 3) and clean_step_ms == pytest.approx(13.5)


def test_a_program_that_ends_soon_is_recorded_once() -> None:
    session = Paper(10.0, 14.0)
    assert chosen(session, max_steps=100)[0] == session.windows == 1


def test_a_single_long_step_does_not_lengthen_the_normal_one() -> None:
    assert usual_s((0.01,) * 9 + (0.2,)) == 0.01
    assert usual_s((0.01, 0.01, 0.04, 0.04, 0.04)) == pytest.approx(math.fsum([0.02, 0.12]) / 5)
