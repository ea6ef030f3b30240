"""Percentiles of the times of requests, and what of their tail a number of requests can show.

Requests are not independent, and in a closed loop nobody waits in a queue: of the 99th percentile only
whether it got longer is asked, with an interval that resamples whole quads: what else the machine did then
made requests of both arms slow.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from advisor.tuners.trial.messages import Slot

if TYPE_CHECKING:
    import numpy

LONGER = 1.05  # ratio of the 99th percentile, which its upper bound may not exceed (inference.md, section 5)
ROUNDS = 400  # of the bootstrap
ALPHA = 0.01  # one-sided
IN_QUAD = 2  # slots of each arm
DISCARDED = 1  # slowest requests that may be left out and the percentile is still bounded


def percentile(times: Sequence[float], share: float) -> float:
    """The time within which this share (0 to 1) of at least one request was answered: the nearest rank."""
    ordered = sorted(times)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@cache
def least_requests(share: float, discarded: int = DISCARDED, alpha: float = ALPHA) -> int:
    """Requests from which a bound on a percentile follows, with so many of the slowest left out.

    With one, two and three 64, 81, 97 for the 90th and 662, 838, 1001 for the 99th, as MLPerf has them.
    """
    from scipy.stats import binom

    low, high = discarded, 1
    while binom.cdf(discarded, high, 1 - share) > alpha:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if binom.cdf(discarded, middle, 1 - share) > alpha else (low, middle)
    return high


@dataclass(frozen=True)
class Tail:
    """The 99th percentile of a candidate over that of the baseline; above 1 where it is longer.

    Attributes:
        verdict: ``not_longer``, ``not_shown`` where that cannot be excluded, or ``too_few`` requests to tell.
        ratio: Of the two; ``None`` without enough requests.
        high: Upper bound, one-sided at 99 %.
        requests: Of the arm with fewer.
    """

    verdict: Literal["not_longer", "not_shown", "too_few"]
    ratio: float | None
    high: float | None
    requests: int

    @property
    def told(self) -> str:
        """In a sentence."""
        if self.ratio is None or self.high is None:
            least = least_requests(0.99)
            return f"the tail is not shown: {self.requests} requests, and p99 takes {least} at least"
        digits = 2 if round(self.high, 2) != LONGER else 4  # what is allowed does not look like what is not
        figures = f"p99 is {self.ratio:.2f} times as long, at most {self.high:.{digits}f} times"
        if self.verdict == "not_longer":
            return figures
        told = f"tail not shown: {figures}, {LONGER} are allowed"
        needed = self.requests_needed
        return (
            told if needed is None else f"{told}; about {needed:,} requests would tell, of {self.requests:,}"
        )

    @property
    def requests_needed(self) -> int | None:
        """About how many bound the ratio, if it is what it seems; ``None`` where no number would.

        The width of its interval falls with the square root of the number.
        """
        if self.ratio is None or self.high is None or self.verdict != "not_shown" or self.ratio >= LONGER:
            return None
        wide, allowed = math.log(self.high / self.ratio), math.log(LONGER / self.ratio)
        return _two_figures(self.requests * (wide / allowed) ** 2)


def _two_figures(number: float) -> int:
    """The next number of two figures."""
    unit = int(10 ** max(0, math.floor(math.log10(max(number, 1))) - 1))
    return math.ceil(number / unit) * unit


def tail(first: Sequence[Slot], second: Sequence[Slot], seed: int = 0) -> Tail:
    """Whether the second arm's 99th percentile may be longer.

    Args:
        first: Slots of the baseline, two of each quad.
        second: Slots of the candidate, in the same order.
        seed: Of the bootstrap over quads; over slots where the arms have not as many.
    """
    import numpy

    requests = min(sum(len(slot.step_s) for slot in arm) for arm in (first, second))
    if requests < least_requests(0.99):
        return Tail("too_few", None, None, requests)
    generator = numpy.random.default_rng(seed)
    arms = [[numpy.asarray(slot.step_s) for slot in arm] for arm in (first, second)]
    ratio = _p99(arms[1]) / _p99(arms[0])
    found = []
    paired = len(first) == len(second) and len(first) % IN_QUAD == 0
    for _ in range(ROUNDS):
        quads = generator.integers(0, len(first) // IN_QUAD, len(first) // IN_QUAD)
        places = [IN_QUAD * quad + at for quad in quads for at in range(IN_QUAD)]
        drawn = [
            [arm[place] for place in (places if paired else generator.integers(0, len(arm), len(arm)))]
            for arm in arms
        ]
        found.append(_p99(drawn[1]) / _p99(drawn[0]))
    high = max(ratio, float(numpy.quantile(found, 1 - ALPHA)))
    return Tail("not_longer" if high <= LONGER else "not_shown", ratio, high, requests)


def _p99(slots: "Sequence[numpy.ndarray]") -> float:
    """As of ``percentile``; each time in seconds, by slot."""
    import numpy

    times = numpy.concatenate(slots)
    place = max(0, math.ceil(0.99 * len(times)) - 1)
    return float(numpy.partition(times, place)[place])
