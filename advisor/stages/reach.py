"""What a budget can confirm: told before the search, what ends it, and why what it found is not confirmed."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from advisor.base.durations import write_duration
from advisor.base.unit import Unit
from advisor.result import wording
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.confirmation_costs import ConfirmationCosts, suggested_budget
from advisor.stages.confirming.outcome import Outcome
from advisor.tuners.comparing.affordable import (
    FEWEST,
    MOST,
    TELLING,
    fewest_pairs,
    pairs_within,
    seconds_to_tell,
    smallest_gain,
)
from advisor.tuners.comparing.ways import LIVE, WINDOWS
from advisor.tuners.search.costs import Costs
from advisor.tuners.search.measuring import NEARLY_LARGE
from advisor.tuners.search.race import WORTH
from advisor.tuners.space.configuration import Configuration

CONFIRMED_SHARE = 0.5  # of what is left after the baseline, by which it is told what can be confirmed
HOPEFUL = 0.5  # of the smallest gain that can be confirmed, below which trying is a waste: estimates err


@dataclass(frozen=True)
class Beyond:
    """Why the rest of a budget cannot confirm a nominee; ``tells`` is as of ``Outcome``."""

    reason: str
    tells: float | None = None

    def outcome(self, present: Configuration) -> Outcome:
        """What comes of it: the program stays as it is."""
        return Outcome(present, reason=self.reason, tells=self.tells)


@dataclass(frozen=True)
class Reach:
    """What can be confirmed in the budget of a run whose baseline is known.

    Attributes:
        bench: What is measured on.
        present: The program as it is.
        before_s: Of the budget, that were spent before the search.
        smallest: Relative gain that half of the rest probably confirmed then; ``None`` where it was none.
    """

    bench: MeasuredBench
    present: Configuration
    before_s: float
    smallest: float | None

    @classmethod
    def now(cls, bench: MeasuredBench, present: Configuration) -> "Reach":
        """As it is before the search."""
        seconds = CONFIRMED_SHARE * bench.left_s
        costs = Costs(bench.arena, bench.baseline.startup_s)
        pairs = pairs_within(seconds, costs.pair_s())
        smallest = smallest_gain(pairs, bench.arena.sigma, costs.pair_quads, _way(bench), _nodes(bench))
        return cls(bench, present, bench.spent_s, smallest)

    @property
    def least(self) -> float:
        """Log ratio below which a gain could hardly be confirmed."""
        return max(WORTH, HOPEFUL * math.log1p(self.smallest or TELLING))

    @property
    def said(self) -> str:
        """What is told of it before the search."""
        bench, costs = self.bench, Costs(self.bench.arena, self.bench.baseline.startup_s)
        pairs = pairs_within(CONFIRMED_SHARE * bench.left_s, costs.pair_s())
        fit = f"{pairs} pair{'' if pairs == 1 else 's'} of fresh processes"
        if self.smallest is not None and self.smallest <= TELLING:
            return f"the budget tells a gain of about {self.smallest:.0%} and more: {fit}"
        needed_s = seconds_to_tell(
            TELLING, costs.pair_s(), bench.arena.sigma, costs.pair_quads, _way(bench), _nodes(bench)
        )
        told = f"the budget tells no gain of {TELLING:.0%}"
        if self.smallest is not None:
            told += f", one of about {1 + self.smallest:.1f}x and more"
        told += f": {fit} fit"
        if needed_s is None:
            return f"{told}, and the noise asks for more than {MOST}"
        return f"{told}; {suggested_budget(self.before_s + needed_s / CONFIRMED_SHARE)} could"

    def verdict_s(self, config: Configuration, score: float) -> float:
        """Seconds in which a gain can be confirmed; infinite where none is before the search ends.

        Args:
            config: That has it.
            score: Log ratio over the program as it is.
        """
        if self.bench.settings.unit is not Unit.STEP or not self.bench.arena.timed:
            return math.inf
        costs = self._costs(config, score)
        if score >= NEARLY_LARGE:
            return costs.least_s()
        pairs = self._pairs(costs, score)
        return math.inf if pairs is None else costs.takes_s(pairs)

    def begin_by(self, config: Configuration, score: float, after_s: float = 0.0) -> float:
        """Time of the clock by which confirming has to begin; other args as of ``verdict_s``.

        Infinite where the rest of the budget cannot confirm it.

        Args:
            after_s: Seconds that are left to what follows the verdict.
        """
        if not self.bench.arena.timed:
            return self.bench.deadline
        costs = self._costs(config, score)
        if not self._fits(costs, score):
            return math.inf
        return self.bench.deadline - after_s - costs.takes_s(self._pairs(costs, score) or MOST)

    def within(self, found: Iterable[tuple[float, Configuration]]) -> tuple[float, Configuration] | None:
        """The first of scores and configurations that the rest of the budget may confirm."""
        return next((each for each in found if self.beyond(each[1], each[0]) is None), None)

    def beyond(self, nominee: Configuration, score: float) -> Beyond | None:
        """Why the rest of the budget cannot confirm a nominee; ``None`` where it may.

        Args as of ``verdict_s``.

        Either the gain is far below what can be told, or there is no room for the least number of pairs.
        """
        bench = self.bench
        if not bench.arena.timed:
            return None
        costs = self._costs(nominee, score)
        if self._fits(costs, score):
            return None
        told = f"the best that was found, about {math.exp(score):.2f}x,"
        pairs = self._pairs(costs, score)
        if pairs is None:
            tells = smallest_gain(MOST, bench.arena.sigma, costs.quads, costs.how, bench.crew.size)
            assert tells is not None
            return Beyond(
                f"{told} is less than that: processes of this program differ too much for {MOST} pairs of "
                "them to tell it",
                tells,
            )
        takes_s = costs.takes_s(pairs)
        return Beyond(
            f"{told} {wording.BEYOND_BUDGET}: its numbers, {pairs} pairs of processes and a longer run take "
            f"about {write_duration(takes_s)}, with {write_duration(max(0.0, bench.room_s))} left; "
            f"{suggested_budget(self.before_s + takes_s / CONFIRMED_SHARE)} could"
        )

    def _fits(self, costs: ConfirmationCosts, score: float) -> bool:
        """Whether the rest of the budget may confirm a gain."""
        bench = self.bench
        if costs.least_s() > bench.room_s:
            return False
        pairs = max(FEWEST, pairs_within(bench.left_s, costs.pairs_s(FEWEST) / FEWEST))
        smallest = smallest_gain(pairs, bench.arena.sigma, costs.quads, costs.how, bench.crew.size)
        return smallest is not None and score >= HOPEFUL * math.log1p(smallest)

    def _pairs(self, costs: ConfirmationCosts, score: float) -> int | None:
        return fewest_pairs(math.expm1(score), self.bench.arena.sigma, costs.quads, costs.how)

    def _costs(self, config: Configuration, score: float) -> ConfirmationCosts:
        return ConfirmationCosts(self.bench, self.present, config, max(1.0, math.exp(score)))


def _nodes(bench: MeasuredBench) -> int:
    """That a run is going to measure on, before it is known which of them can."""
    return 1 + len(bench.crew.others)


def _way(bench: MeasuredBench) -> str:
    """In which most settings are compared: what can be switched in one process differs least."""
    arena = bench.arena
    return WINDOWS if arena.queue_depth(arena.present) > 0 or arena.max_steps is not None else LIVE
