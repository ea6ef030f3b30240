"""Settings of loaders compared in one process that goes over from one to the other."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from builders import a_loader, a_profile

from advisor.profiles.derived.epochs import Epochs
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.memory_duel import MemoryArena
from advisor.tuners.comparing.one_window import known_window
from advisor.tuners.comparing.ways import LIVE, SWITCHED, WINDOWS
from advisor.tuners.comparing.windows import KeptWindows, queue_depth
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.trial.messages import Facts, Slot, SlotMeasured

OF_ITERATOR = [name for name, knob in KNOBS.items() if knob.of_iterator and name != "batch_size"]
STEP_S = 0.1
PRESENT: dict[str, Value] = {
    "num_workers": 0, "prefetch_factor": 2, "persistent_workers": "off", "amp": "off", "malloc": "libc",
    "in_memory_cache": "off", "batch_size": 32,
}  # fmt: skip
FOUR: dict[str, Value] = PRESENT | {"num_workers": 4}


def an_arena(**facts: Any) -> Arena:
    return Arena(None, KNOBS, PRESENT, **{"queue_depth": queue_depth, "switches": OF_ITERATOR, **facts})  # type: ignore[arg-type]  # nothing is started


@pytest.mark.parametrize(
    ("first", "second", "way"),
    [
        (PRESENT, FOUR, SWITCHED),
        (FOUR, FOUR | {"prefetch_factor": 4}, SWITCHED),
        (PRESENT, FOUR | {"amp": "bf16"}, SWITCHED),
        (FOUR, FOUR | {"amp": "bf16"}, LIVE),
        (PRESENT, FOUR | {"malloc": "libc-tuned"}, WINDOWS),
        (FOUR, FOUR | {"in_memory_cache": "memory"}, WINDOWS),
        (PRESENT | {"in_memory_cache": "memory"}, FOUR | {"in_memory_cache": "memory"}, WINDOWS),
        (PRESENT | {"batch_size": 64}, FOUR | {"batch_size": 64}, SWITCHED),
        (PRESENT | {"ranks": 2}, FOUR | {"ranks": 2}, WINDOWS),
    ],
)
def test_what_can_be_switched_is(first: dict[str, Value], second: dict[str, Value], way: str) -> None:
    assert an_arena().how(first, second) == way


def test_a_confirmation_has_processes_of_its_own() -> None:
    assert an_arena().how(PRESENT, FOUR, fresh=True) == WINDOWS
    assert an_arena().how(FOUR, FOUR | {"amp": "bf16"}, fresh=True) == WINDOWS


@pytest.mark.parametrize("facts", [{"switches": ()}, {"max_steps": 60}])
def test_loaders_that_are_fixed_and_programs_that_end_soon_are_started_for_each(facts: Any) -> None:
    assert an_arena(**facts).how(PRESENT, FOUR) == WINDOWS


def test_peaks_of_memory_are_those_of_a_process() -> None:
    arena = MemoryArena(None, KNOBS, PRESENT, switches=OF_ITERATOR)  # type: ignore[arg-type]  # nothing is started
    assert arena.how(PRESENT, FOUR) == WINDOWS and not arena.may_switch(PRESENT, FOUR)


@pytest.mark.parametrize(
    ("loader", "fixed"),
    [
        (a_loader(), None),
        (a_loader(fixed="its dataset is iterable"), "its dataset is iterable"),
        (None, "it acts before the first step"),
    ],
)
def test_a_knob_says_why_it_cannot_be_switched(loader: Any, fixed: str | None) -> None:
    profile = a_profile(loader=loader)
    assert {KNOBS[name].fixed_in(profile) for name in OF_ITERATOR} == {fixed}
    assert "len(loader)" in str(KNOBS["batch_size"].fixed_in(profile))
    assert KNOBS["malloc"].fixed_in(profile) is not None and KNOBS["mkldnn"].fixed_in(profile) is None


class Paper:
    """A process on paper, four times as fast with workers, whose epochs start with a step of a second."""

    startup_s = 3.0

    def __init__(self, start_s: float = 0.0, epoch_in: int | None = None) -> None:
        self.switched: list[Value] = []
        self.last = SlotMeasured()
        self._start_s = start_s
        self._epoch_in = epoch_in

    def window(self, steps: int, *, drop: int, config: Mapping[str, Value], limit_s: float) -> Slot:
        self.switched.append(config["num_workers"])
        spent = [STEP_S / 4 if config["num_workers"] else STEP_S] * steps
        kept = () if self._epoch_in is None else (self._epoch_in,)
        for place in kept:
            spent[place] = 1.0
        self.last = SlotMeasured(loader_start_s=self._start_s, kept=kept)
        return Slot(tuple(spent))

    def facts(self) -> Facts:
        return Facts(a_profile(loader=a_loader(worker_start_ms=7.0)))


def gain(session: Paper, samples: int | None = None, **options: Any) -> float:
    epochs = None if samples is None else Epochs(samples, 32, 1.0, drop_last=True)
    arena = an_arena(step_s=STEP_S, epochs=epochs)
    return math.exp(arena.switched(session, PRESENT, FOUR, **options).log_ratios[0])  # type: ignore[arg-type]


def test_the_incumbents_window_is_taken_once_in_a_process() -> None:
    session, kept = Paper(), KeptWindows()
    assert gain(session, kept=kept) == pytest.approx(4.0) == gain(session, kept=kept)
    assert session.switched == [0, 4, 4]


def test_roles_are_swapped_in_another_look() -> None:
    session = Paper()
    assert gain(session, swapped=True) == pytest.approx(4.0)
    assert session.switched == [4, 0]


def test_what_workers_took_to_start_counts_once_an_epoch() -> None:
    epoch_s, start_s = 1000 * STEP_S / 4, 5.0
    expected = 1000 * STEP_S / (epoch_s + start_s - 4 * STEP_S / 4)
    assert gain(Paper(start_s), 32_000) == pytest.approx(expected)


def test_an_epoch_that_happens_to_start_in_a_window_is_not_counted_for_more() -> None:
    assert gain(Paper(epoch_in=3), 32_000) == pytest.approx(gain(Paper(), 32_000))


def test_windows_of_whole_short_epochs_hold_their_starts() -> None:
    steps = an_arena(step_s=0.01, epochs=Epochs(320, 32, 1.0, drop_last=True)).window_steps(FOUR)[1]
    assert steps % 10 == 0


def test_what_the_baseline_has_shown_stands_for_a_window() -> None:
    session, kept = Paper(), KeptWindows()
    known = known_window(an_arena(), [Slot((STEP_S,) * 5, cpu_s=1.0), Slot((STEP_S / 2,) * 5, cpu_s=0.5)])
    assert known is not None and known.slot == Slot((STEP_S,) * 5 + (STEP_S / 2,) * 5, cpu_s=1.5)
    kept.keep(PRESENT, known)
    assert gain(session, kept=kept) == pytest.approx(3.0) and session.switched == [4]


def test_where_workers_had_run_ahead_or_epochs_are_short_it_does_not() -> None:
    slots, short = [Slot((0.01,) * 50)], Epochs(320, 32, 1.0, drop_last=True)
    assert known_window(an_arena(), []) is None
    assert known_window(an_arena(step_s=0.01, epochs=short), slots) is None
    busy = Arena(None, KNOBS, FOUR, queue_depth=queue_depth)  # type: ignore[arg-type]  # nothing is started
    assert known_window(busy, slots) is None
