"""Which strategy would be fastest at a count, with odds; "cannot be told apart" is an answer."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.planning.places import ranks_of
from advisor.planning.plan import Plan, Prediction
from advisor.planning.predicting import Interval

DRAWS = 2000
CLEAR = 0.9  # odds from which on one strategy is named alone
TOLD = 0.01  # odds below it are not worth a word
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
        told = ", ".join(f"{name} {share:.0%}" for name, share in self.odds if share >= TOLD)
        count = ranks_of(self.ranks)
        if not others:
            return f"{count}: {best} alone was measured"
        if odds >= CLEAR:
            return f"{count}: {best} would be fastest ({told})"
        return f"{count}: cannot be told apart ({told})"


def compare(plans: Sequence[Plan]) -> list[Compared]:
    """Odds at each count of several ranks that every plan holds; one rank trains the same way under all.

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
        if len(rows) < len(plans) or ranks == 1:
            continue
        odds = odds_of({row.strategy: row.throughput for row in rows}, generator)
        found.append(Compared(ranks, odds))
    return found


def odds_of(throughputs: Mapping[str, Interval], generator: random.Random) -> tuple[tuple[str, float], ...]:
    """How often each is the highest when all are drawn, the likeliest first."""
    wins = dict.fromkeys(throughputs, 0)
    for _ in range(DRAWS):
        wins[max(throughputs, key=lambda name: _drawn(throughputs[name], generator))] += 1
    return tuple(sorted(((name, count / DRAWS) for name, count in wins.items()), key=lambda pair: -pair[1]))


def _drawn(value: Interval, generator: random.Random) -> float:
    off = generator.gauss(0, 1)
    end = value.high if off > 0 else value.low
    return math.log(value.estimate) + abs(off) / NINETY * math.log(end / value.estimate)
