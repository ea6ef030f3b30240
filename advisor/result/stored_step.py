"""The time of a step as a stored result tells it, with what it may be off by: the bias of processes included.

``check`` and ``compare`` rest on it alike. A comparison within one run interleaves its arms; what is compared
here was measured at other times, so only intervals over processes count (measurement.md, section 3).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from advisor.result.document import Baseline, Interval
from advisor.tuners.comparing.measure import between

LEAST_PROCESSES = 3  # with fewer the spread between them is hardly known
WIDEST = 20.0  # log ratio; a wider interval is written as this


@dataclass(frozen=True)
class StoredStep:
    """A time in logarithms.

    Attributes:
        centre: Of milliseconds, or of bytes.
        half: Half the width of its interval, with the bias of processes in it if ``processes`` are several.
        processes: How many it rests on; 1 where their spread is not known.
        bias: Half the width of the interval of what one more process shows; 0 where it is not known.
    """

    centre: float
    half: float
    processes: int
    bias: float = 0.0

    @property
    def interval(self) -> Interval:
        """In the unit of what is stored."""
        low, centre, high = (math.exp(self.centre + end) for end in (-self.half, 0.0, self.half))
        return Interval(estimate=centre, low=low, high=high)

    def alone(self, bias: float) -> "StoredStep":
        """With the bias that one process may have, where that is not in the interval yet."""
        if self.processes > 1:
            return self
        return StoredStep(self.centre, min(WIDEST, math.hypot(self.half, bias)), 1)


def stored_step(baseline: Baseline) -> StoredStep:
    """The time of a step of a stored baseline, which is positive, at the confidence stored with it."""
    found = baseline.over_processes_ms
    if found is None or found.processes < LEAST_PROCESSES:
        return of_interval(baseline.step_ms)
    told = of_interval(found)
    return replace(told, processes=found.processes, bias=told.half * math.sqrt(found.processes))


def over_processes(instances: Sequence[Sequence[float]], level: float) -> StoredStep:
    """From positive figures of several processes."""
    found = between([[math.log(value) for value in each] for each in instances], level)
    half = min(WIDEST, found.high - found.estimate)
    return StoredStep(found.estimate, half, len(instances), half * math.sqrt(len(instances)))


def of_interval(value: Interval) -> StoredStep:
    """From an interval around a positive value within one process: its wider side."""
    sides = [value.high / value.estimate]
    if value.low > 0:
        sides.append(value.estimate / value.low)
    return StoredStep(math.log(value.estimate), math.log(max(*sides, 1.0)), 1)
