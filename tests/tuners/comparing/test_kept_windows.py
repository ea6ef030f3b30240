"""Windows that stand for new ones while a search screens loaders: the incumbent's, and no more than a few."""

from typing import Any

from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.ways import WINDOWS
from advisor.tuners.comparing.windows import KEPT_WINDOWS
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.trial.messages import Slot


class Paper:
    """A process that exists on paper and always gives the same window."""

    startup_s = 0.1
    last: dict[str, Any] = {}  # noqa: RUF012  never changed

    def window(self, steps: int, *, drop: int, limit_s: float) -> Slot:
        """What it was told to measure."""
        return Slot(step_s=(0.01,) * steps, work=1.0, cpu_s=0.0, other_cpu_s=0.0, throttled_s=0.0)

    def stop(self) -> dict[str, Any]:
        """It leaves nothing."""
        return {}

    def kill(self) -> None:
        """As ``stop``."""


class Counting(Arena):
    """Counts what it starts."""

    started: list[dict[str, Value]]

    def start(self, config: Any, number: int, **options: Any) -> Any:
        """Start nothing."""
        self.started.append(dict(config))
        return Paper()


def test_the_incumbents_window_is_measured_once_however_many_others_come() -> None:
    arena = Counting(None, KNOBS, {})  # type: ignore[arg-type]  # nothing is started
    arena.started = []
    incumbent: dict[str, Value] = {"num_workers": 0}
    others: list[dict[str, Value]] = [{"num_workers": number} for number in range(1, 3 * KEPT_WINDOWS)]
    for other in others:
        arena.duel(incumbent, other, how=WINDOWS, quads=1, reuse=True)
    assert arena.started.count(incumbent) == 1
    assert len(arena.started) == 1 + len(others)
    assert len(arena.kept) == KEPT_WINDOWS


def test_a_window_that_nobody_asked_for_in_a_while_is_measured_again() -> None:
    arena = Counting(None, KNOBS, {})  # type: ignore[arg-type]  # nothing is started
    arena.started = []
    early: dict[str, Value] = {"num_workers": 1}
    for number in range(2, 3 * KEPT_WINDOWS):
        arena.duel({"num_workers": 0}, {"num_workers": number}, how=WINDOWS, quads=1, reuse=True)
    arena.duel(early, {"num_workers": 0}, how=WINDOWS, quads=1, reuse=True)
    assert arena.started.count(early) == 1
