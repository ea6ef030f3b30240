"""Workers that every epoch starts anew: what that costs where windows hold no start, and that it decides."""

import math
from typing import Any

import pytest
from builders import a_loader, a_profile

from advisor.profiles.derived.epochs import Epochs
from advisor.profiles.facts.profile import LoaderFacts
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.ways import WINDOWS
from advisor.tuners.comparing.windows import queue_depth
from advisor.tuners.comparing.worker_starts import share_of_restarts
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.trial.messages import Facts, Slot, SlotMeasured, TrialOutcome

EPOCHS = Epochs(samples=3200, batch_size=32, steps_per_batch=1.0, drop_last=True)  # of 100 steps
STEP_S = 0.1
START_MS = 4400.0  # of which four steps may be the first batch
FOUR: dict[str, Value] = {"num_workers": 4, "persistent_workers": "off"}


def told(start_ms: float | None, kept: bool = False) -> LoaderFacts:
    return a_loader(worker_start_ms=start_ms, persistent_workers=kept)


@pytest.mark.parametrize(
    ("config", "share"),
    [
        (FOUR, 4.0 / 10.0),
        ({**FOUR, "batch_size": 64}, 4.0 / 5.0),
        ({**FOUR, "persistent_workers": "on"}, 0.0),
        ({**FOUR, "num_workers": 0}, 0.0),
        ({**FOUR, "ranks": 2}, 0.0),
    ],
)
def test_workers_that_end_with_the_epoch_cost_their_start_in_each(config: Any, share: float) -> None:
    assert share_of_restarts(told(START_MS), config, EPOCHS, STEP_S) == pytest.approx(share)


@pytest.mark.parametrize(("kept", "share"), [(True, 0.0), (False, 0.4)])
def test_a_program_that_nothing_is_set_in_says_itself_whether_it_keeps_them(kept: bool, share: float) -> None:
    assert share_of_restarts(told(START_MS, kept), {"num_workers": 4}, EPOCHS, STEP_S) == pytest.approx(share)


@pytest.mark.parametrize("loader", [told(390.0), told(None), None])
def test_a_start_no_longer_than_a_batch_takes_costs_nothing(loader: LoaderFacts | None) -> None:
    assert share_of_restarts(loader, FOUR, EPOCHS, STEP_S) == 0.0


class Paper:
    """A process that exists on paper: workers make its steps 1.3 times as fast, and take long to start."""

    startup_s = 0.1

    def __init__(self, config: dict[str, Value]) -> None:
        self._workers = config.get("num_workers", 0)
        self.last = SlotMeasured()

    def window(self, steps: int, *, drop: int, limit_s: float) -> Slot:
        return Slot((STEP_S / 1.3 if self._workers else STEP_S,) * steps)

    def facts(self) -> Facts:
        return Facts(a_profile(loader=told(START_MS)))

    def stop(self) -> TrialOutcome:
        return TrialOutcome("stopped")

    def kill(self) -> None:
        """Nothing runs."""


class OnPaper(Arena):
    def start(self, config: Any, number: int, **options: Any) -> Any:
        return Paper({**self.present, **config})


def gain(second: dict[str, Value], present: dict[str, Value], samples: int = 3200) -> float:
    epochs = Epochs(samples, 32, 1.0, drop_last=True)
    arena = OnPaper(None, KNOBS, present, step_s=STEP_S, queue_depth=queue_depth, epochs=epochs)  # type: ignore[arg-type]
    first = {name: present[name] for name in second}
    return math.exp(arena.duel(first, second, how=WINDOWS, quads=1).log_ratios[0])


def test_workers_that_cost_more_to_start_than_they_spare_lose() -> None:
    none: dict[str, Value] = {"num_workers": 0, "persistent_workers": "off"}
    lasting: dict[str, Value] = {"num_workers": 4, "persistent_workers": "on"}
    assert gain(FOUR, none) == pytest.approx(10 / (10 / 1.3 + START_MS / 1000 - 4 * STEP_S / 1.3))
    assert gain(lasting, none) == pytest.approx(1.3)


def test_the_programs_own_workers_cost_their_start_where_something_else_is_compared() -> None:
    lasting: dict[str, Value] = {"persistent_workers": "on"}
    start_s = START_MS / 1000 - 4 * STEP_S / 1.3
    assert gain(lasting, FOUR) == pytest.approx(1 + start_s / (10 / 1.3))


def test_a_window_that_holds_the_start_of_an_epoch_has_counted_it() -> None:
    assert gain({"persistent_workers": "on"}, FOUR, samples=640) == pytest.approx(1.0)
