"""Which strategy would be fastest at a count, with odds; "cannot be told apart" is an answer."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.planning.plan import Plan, Prediction

DRAWS = 2000
CLEAR = 0.9  # odds from which on one strategy is named alone
NINETY = 1.645  # standard deviations from the middle of a normal distribution to the end of its 90 % interval


@dataclass(frozen=True)
class Compared:
    """Strategies at one count, the likeliest first, each with its odds of the highest throughput."""

    ranks: int
    odds: tuple[tuple[str, float], ...]

    @property
    def sentence(self) -> str:
        """What the odds say."""
        (best, odds), *others = self.odds
        told = ", ".join(f"{name} {share:.0%}" for name, share in self.odds)
        if not others:
            return f"{self.ranks} ranks: {best} alone was measured"
        if odds >= CLEAR:
            return f"{self.ranks} ranks: {best} would be fastest ({told})"
        return f"{self.ranks} ranks: cannot be told apart ({told})"


def compare(plans: Sequence[Plan]) -> list[Compared]:
    """Odds at each count that every plan holds.

    Each strategy is drawn from its interval by itself, a normal distribution of the logarithm with a width
    for either side. What they share, the network, moves them together: the odds are rather less clear than
    they could be.
    """
    by_count: dict[int, list[Prediction]] = {}
    for plan in plans:
        for row in plan.predictions:
            by_count.setdefault(row.ranks, []).append(row)
    generator = random.Random(0)
    found = []
    for ranks, rows in sorted(by_count.items()):
        if len(rows) < len(plans):
            continue
        wins = dict.fromkeys((row.strategy for row in rows), 0)
        for _ in range(DRAWS):
            wins[max(rows, key=lambda row: _drawn(row, generator)).strategy] += 1
        odds = sorted(((name, count / DRAWS) for name, count in wins.items()), key=lambda pair: -pair[1])
        found.append(Compared(ranks, tuple(odds)))
    return found


def _drawn(row: Prediction, generator: random.Random) -> float:
    off = generator.gauss(0, 1)
    end = row.throughput.high if off > 0 else row.throughput.low
    return math.log(row.throughput.estimate) + abs(off) / NINETY * math.log(end / row.throughput.estimate)
