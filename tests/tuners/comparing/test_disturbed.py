"""Quads that something else has falsified."""

import math
import os
from typing import Any

import pytest

from advisor.tuners.comparing.duel import Arena, Duel
from advisor.tuners.comparing.excluded import disturbance, more_disturbed, set_apart
from advisor.tuners.comparing.memory_duel import MemoryArena
from advisor.tuners.comparing.ways import WINDOWS
from advisor.tuners.comparing.window_pair import AGAIN
from advisor.tuners.comparing.windows import Window
from advisor.tuners.trial.messages import Slot, SlotMeasured, TrialOutcome


def slots(**facts: Any) -> list[Slot]:
    """Two slots of a second each."""
    return [Slot((0.5, 0.5), **facts), Slot((0.5, 0.5), **facts)]


def test_load_beside_one_arm_alone_is_a_disturbance() -> None:
    assert disturbance(slots(), slots(other_cpu_s=0.5), 1) == "other_load"
    assert disturbance(slots(other_cpu_s=0.5), slots(), 1) == "other_load"


def test_load_beside_both_arms_is_none() -> None:
    assert disturbance(slots(other_cpu_s=0.9), slots(other_cpu_s=0.9), 1) is None


def test_threads_that_get_less_than_their_share_beside_other_load_have_collapsed() -> None:
    calm, crowded = slots(cpu_s=1.9), slots(cpu_s=1.0, other_cpu_s=0.9)
    assert disturbance(calm, crowded, 2) == "thread_collapse"
    assert disturbance(calm, slots(cpu_s=1.9, other_cpu_s=0.9), 2) == "other_load"


def test_a_quota_that_held_up_one_arm_is_a_disturbance() -> None:
    assert disturbance(slots(throttled_s=0.2), slots(), 1) == "throttled"


@pytest.mark.parametrize("ticks", [1, 2])
def test_the_kernel_s_own_ticks_are_no_load(ticks: int) -> None:
    short = [Slot((0.05,)), Slot((0.05,))]
    beside = [Slot((0.05,), other_cpu_s=0.01 * ticks / 2), Slot((0.05,), other_cpu_s=0.01 * ticks / 2)]
    assert disturbance(short, beside, 1) is None


def test_steps_with_an_evaluation_or_a_save_are_counted() -> None:
    flagged = [
        Slot((0.1,), flags=(("evaluation", 1), ("skipped_update", 2))),
        Slot((0.1,), flags=(("save", 3),)),
    ]
    assert set_apart(flagged) == {"evaluation": 1, "save": 3}


def test_the_arm_with_more_other_load_is_the_disturbed_one() -> None:
    assert more_disturbed(slots(other_cpu_s=0.5), slots(other_cpu_s=0.1)) == 0
    assert more_disturbed(slots(), slots(throttled_s=0.2)) == 1
    assert more_disturbed(slots(other_cpu_s=0.5), slots(flags=(("throttled", 2),))) == 1


class Slots:
    """A process whose slots take these seconds a step beside so much other load, one after the other."""

    last = SlotMeasured()

    def __init__(self, *taken: tuple[float, float]) -> None:
        self._left = list(taken)

    def slot(self, *given: Any, **options: Any) -> Slot:
        seconds, load = self._left.pop(0)
        return Slot((seconds,) * 10, other_cpu_s=10 * seconds * load)


def test_what_a_quad_beside_other_load_took_is_left_out_and_kept_apart() -> None:
    arena: Any = Arena(None, {}, {})  # type: ignore[arg-type]  # nothing is started
    calm = [(0.1, 0.0)] * 4
    session = Slots((0.1, 0.0), (0.3, 0.9), (0.3, 0.9), (0.1, 0.0), *calm, *calm)
    ratios, (first, second), _ = arena.quads((session, session), (None, None), 2)
    assert ratios == [0.0, 0.0] and [len(first), len(second)] == [4, 4]
    assert [[slot.mean_s for slot in arm] for arm in arena.disturbed] == [
        pytest.approx([0.1, 0.1]), pytest.approx([0.3, 0.3])
    ]  # fmt: skip


def compared(monkeypatch: pytest.MonkeyPatch, *taken: tuple[float, float]) -> tuple[Duel, Arena, list[str]]:
    """A comparison by windows that take these seconds beside so much other load, one after the other."""
    arena = Arena(None, {}, {})  # type: ignore[arg-type]  # nothing is started
    left, of = list(taken), []

    def window(arena: Arena, config: dict[str, str], number: int, **options: Any) -> Window:
        seconds, load = left.pop(0)
        of.append(config["knob"])
        slot = Slot((seconds,) * 10, other_cpu_s=10 * seconds * load)
        return Window(slot, SlotMeasured(), TrialOutcome("stopped"), 0.0)

    monkeypatch.setattr("advisor.tuners.comparing.duel.fresh_window", window)
    return arena.duel({"knob": "off"}, {"knob": "on"}, how=WINDOWS, quads=1), arena, of


def test_a_window_beside_other_load_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    duel, arena, of = compared(monkeypatch, (0.2, 0.9), (0.1, 0.0), (0.1, 0.0))
    assert of == ["off", "on", "off"]
    assert duel.log_ratios == [0.0] and arena.excluded == {"other_load": 1}


def test_load_beside_every_window_of_one_arm_is_taken_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    duel, arena, of = compared(monkeypatch, (0.1, 0.0), *[(0.2, 0.9)] * (1 + AGAIN))
    assert of == ["off", "on", *["on"] * AGAIN]
    assert duel.log_ratios[0] < -0.6 and arena.excluded == {"other_load": AGAIN}


def test_of_windows_measured_again_that_beside_the_least_load_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = [(0.2, 0.9), (0.14, 0.4), (0.18, 0.7), (0.19, 0.8)]
    duel, _, _ = compared(monkeypatch, (0.1, 0.0), *loaded)
    assert duel.log_ratios[0] == pytest.approx(math.log(0.1 / 0.14))


def test_windows_in_quiet_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _, arena, of = compared(monkeypatch, (0.1, 0.0), (0.1, 0.05))
    assert of == ["off", "on"] and not arena.excluded


def test_peaks_of_memory_are_the_same_beside_other_load(monkeypatch: pytest.MonkeyPatch) -> None:
    arena, of = MemoryArena(None, {}, {}), list[int]()  # type: ignore[arg-type]  # nothing is started

    def window(arena: Arena, config: dict[str, int], number: int, **options: Any) -> Window:
        of.append(threads := config["num_threads"])
        slot = Slot((0.1,) * 10, cpu_s=1.1, other_cpu_s=float(len(os.sched_getaffinity(0))) * (threads - 1))
        return Window(slot, SlotMeasured(), TrialOutcome("stopped", peak_bytes=threads * 1000), 0.0)

    monkeypatch.setattr("advisor.tuners.comparing.duel.fresh_window", window)
    duel = arena.duel({"num_threads": 1}, {"num_threads": 2}, how=WINDOWS, quads=1)
    assert of == [1, 2] and not arena.excluded
    assert duel.log_ratios == [pytest.approx(-math.log(2))]
