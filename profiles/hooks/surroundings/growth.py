"""Whether memory grows from step to step: samples of one size, and the trend in them."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

EVERY = 10  # steps between two samples, at first
MOST = 500  # samples; then every other one is dropped
PAIRED = 64  # samples between which slopes are taken
SETTLING = 20  # steps before the first sample that counts, where there are enough after them


@dataclass(frozen=True)
class Growth:
    """Trend over ``steps`` steps; ``bytes`` is the rise over them.

    ``monotone`` is whether the last third lies above the middle one and that not below the first.
    """

    steps: int
    bytes: int
    bytes_per_step: float
    monotone: bool


class Samples:
    """Reads a size at every tenth step, more rarely in long runs.

    Args:
        read: Returns the size in bytes.
    """

    def __init__(self, read: Callable[[], int]) -> None:
        self._read = read
        self._every = EVERY
        self._left = 1
        self._step = 0
        self._taken: list[tuple[int, int]] = []

    def step(self) -> None:
        """A step was closed."""
        self._step += 1
        self._left -= 1
        if self._left:
            return
        self._left = self._every
        self._taken.append((self._step, self._read()))
        if len(self._taken) >= MOST:
            del self._taken[1::2]
            self._every *= 2

    def growth(self) -> Growth | None:
        """The trend so far; ``None`` before there are three samples."""
        settled = [sample for sample in self._taken if sample[0] > SETTLING]
        samples = settled if len(settled) >= 3 else self._taken
        if len(samples) < 3:
            return None
        third = len(samples) // 3
        parts = samples[:third], samples[third:-third], samples[-third:]
        first, middle, last = (statistics.median(size for _, size in part) for part in parts)
        slope = _slope(samples[:: -(-len(samples) // PAIRED)])
        steps = samples[-1][0] - samples[0][0]
        return Growth(steps, round(slope * steps), slope, last > middle >= first)


def _slope(samples: list[tuple[int, int]]) -> float:
    """Median slope between all pairs (Theil-Sen): single jumps do not count."""
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0]) for earlier, later in combinations(samples, 2)
    ]
    return statistics.median(slopes)
