"""How far differences of a rounding grow in a run, told by runs whose weights are moved by a few roundings.

Training can make a difference of one rounding grow beyond any fixed bound: one of 1e-7 in the losses of a
ResNet-18 was 1e-4 after one update, 2e-2 after three and 5e-2 in the mean of twenty. So the baseline is run
once more from nudged weights (``Nudged``), which shows step by step how far that grows in this very run. The
first updates tell most: roundings have not grown yet, and a mistake is there in full.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from advisor.tuners.supervision.failures import TrialFailed

NUDGES = 3  # runs with nudged weights at most: one of them may miss what makes differences grow
CLOSE = 5e-6  # relative, of one loss: 40 roundings of float32, which need no nudged run to be believed
BEYOND_NUDGE = 10.0
"""Times the largest distance of the nudged runs up to a step. On ten programs, changes that only reorder
roundings came to 6.2 times at most, a learning rate that is 1 % too high to 25 times at least."""
MEAN_BEYOND_NUDGE = 3.0  # the same for the mean over all steps, which varies less: 2.1 times were seen
OF_SEED_NOISE = 0.05  # a step tells as long as nudges allow no more than this part of what another seed makes
LEAST_TELLING = 2  # the second loss is the first that an update has made


@dataclass
class Nudged:
    """Losses of the baseline from nudged weights: run when first asked for, and kept.

    Attributes:
        run: Gives the losses of a run by its number, from 1.
        affordable: Whether there is time for one more.
        losses: Those of the runs made so far.
        problem: Why no more could be run; empty if they could.
    """

    run: Callable[[int], Sequence[float]]
    affordable: Callable[[], bool] = lambda: True
    losses: list[Sequence[float]] = field(default_factory=list)
    problem: str = ""

    def __iter__(self) -> Iterator[Sequence[float]]:
        self.problem = ""
        for number in range(NUDGES):
            if number == len(self.losses) and not self._add():
                return
            yield self.losses[number]

    def _add(self) -> bool:
        if not self.affordable():
            self.problem = "no time was left"
            return False
        try:
            self.losses.append(self.run(len(self.losses) + 1))
        except TrialFailed as failed:
            self.problem = failed.failure.message
            return False
        return True


class Growth:
    """How far roundings grow in a run, step by step: what its nudged runs have shown so far.

    Attributes:
        apart: Largest relative distance of a nudged loss from the baseline's, up to and with each step.
        mean: Largest mean over all steps.
    """

    def __init__(self, losses: Sequence[float], steps: int, seed_noise: float = 0.0) -> None:
        """Of a baseline with these losses, over the first ``steps``.

        Args:
            losses: Of the baseline.
            steps: How many of them count.
            seed_noise: Mean relative difference of another seed's.
        """
        self._losses = losses[:steps]
        self._most = max(CLOSE, OF_SEED_NOISE * seed_noise)
        self.apart = [0.0] * len(self._losses)
        self.mean = 0.0

    def add(self, losses: Sequence[float]) -> None:
        """Count one more run; a loss that is not finite is infinitely far, a missing one counts nothing."""
        each = [
            distance if math.isfinite(distance) else math.inf
            for distance in relative_each(self._losses, losses)
        ]
        self.mean = max(self.mean, sum(each) / max(1, len(each)))
        reached = list(accumulate(each + [0.0] * (len(self.apart) - len(each)), max))
        self.apart = list(map(max, self.apart, reached))

    @property
    def telling(self) -> int:
        """How many of the first steps tell a mistake from roundings."""
        return sum(BEYOND_NUDGE * grown <= self._most for grown in self.apart)

    def beyond(self, apart: Sequence[float]) -> str | None:
        """Where a run that is ``apart`` from the baseline goes beyond roundings; ``None`` if nowhere."""
        for step, (distance, grown) in enumerate(zip(apart, self.apart, strict=False), start=1):
            if distance > max(CLOSE, BEYOND_NUDGE * grown):
                return f"that of step {step} by {distance:.1g}, {self._nudge(grown)}"
        mean = sum(apart) / len(apart)
        return None if mean <= max(CLOSE, MEAN_BEYOND_NUDGE * self.mean) else self._nudge(self.mean)

    def explain(self, apart: Sequence[float]) -> str:
        """Why a run that is ``apart`` from the baseline is right."""
        telling = min(self.telling, len(apart))
        early, grown = max(apart[:telling]), self.apart[telling - 1]
        if telling == len(apart):
            return f"no step by more than {early:.1g}, {self._nudge(grown)}"
        return (
            f"it grows from roundings: up to step {telling} by {early:.1g} at most, {self._nudge(grown)}; "
            f"after that, two runs of the original differ as much ({self.mean:.2g} in the mean)"
        )

    def hidden(self) -> str:
        """Why not even the first update can be told."""
        grown = self.apart[min(LEAST_TELLING, len(self.apart)) - 1]
        return f"a mistake could not be told from roundings: in the first two steps {self._nudge(grown)}"

    def _nudge(self, grown: float) -> str:
        return f"weights moved by a few roundings by {grown:.1g}"


def distance(first: Sequence[float], second: Sequence[float]) -> float:
    """Mean relative difference of two runs; infinite where no pair is finite."""
    differences = relative_each(first, second)
    if not differences:
        return 0.0
    finite = [difference for difference in differences if math.isfinite(difference)]
    return sum(finite) / len(finite) if finite else math.inf


def relative_each(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Relative difference of each pair, as far as both go."""
    return [relative(a, b) for a, b in zip(first, second, strict=False)]


def relative(first: float, second: float) -> float:
    """Difference relative to the larger one; 0 where both are NaN."""
    if first == second or (math.isnan(first) and math.isnan(second)):
        return 0.0
    return abs(second - first) / max(abs(first), abs(second), 1e-12)
