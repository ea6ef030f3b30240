"""Ranks have unequal amounts of work or memory."""

from collections import Counter
from itertools import combinations
from statistics import fmean, median

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.observed import RankFacts
from advisor.profiles.facts.profile import Profile

DISTANCE = 0.5  # between two ranks' histograms of step times (SageMaker Debugger)
BIN = 0.1  # width of a bin over the median; ranks that differ by less are alike
SKEW = ((0.30, 0.50, Severity.MEDIUM), (0.20, 0.30, Severity.LOW))  # of memory, with use from (TraceML)


class LoadImbalance(Rule):
    """Ranks that get more, longer or other samples need more time, and the rest waits at the next exchange.

    Who is slow may change from step to step, as with sentences of every length, so no single rank stands
    out. Give every rank an equal part: `DistributedSampler` over the whole dataset, shards of equal size,
    and batches of similar length on all ranks. Unequal memory ends in the same way: the fullest rank limits
    the batch of all.
    """

    family = Family.DISTRIBUTED
    kind = Kind.WASTE
    on_traces = "steps of two ranks: needs their traces, one file each"
    threshold = (
        f"histograms of two ranks differ by {DISTANCE} (SageMaker Debugger), or memory by 20 % with 30 % in "
        "use (TraceML)"
    )
    explains = ("exposed_communication",)

    def check(self, profile: Profile) -> Finding:
        ranks = profile.ranks
        if not ranks or len(ranks) < 2:
            return self.not_applicable("ranks", "the run is a single process")
        series = [rank.step_series_ms for rank in ranks if rank.step_series_ms]
        skew, used = _memory_skew(ranks)
        if len(series) < 2 and skew is None:
            return self.not_applicable("steps and memory of each rank", "needs two ranks that were watched")
        apart = max((_distance(one, other) for one, other in combinations(series, 2)), default=0.0)
        waiting = fmean(rank.share("wait") for rank in ranks)
        unequal = self.timeline(waiting)
        if apart >= DISTANCE and unequal.low >= self.least:
            return self.opportunity(
                f"{percent(waiting)} of each step waits for ranks with more work",
                unequal,
                advice="Give ranks equal work: batches of similar length on all of them, and "
                "`DistributedSampler` over the whole dataset; the order of samples changes.",
                location=profile.loader.location if profile.loader is not None else None,
                evidence={"histogram_distance": round(apart, 3), "ranks": len(ranks)},
            )
        if skew is None:
            return self.passed(f"{percent(waiting)} of the step waits for other ranks")
        title = f"{percent(skew)} less memory is used on one rank than on another"
        severity = next((told for least, use, told in SKEW if skew >= least and used >= use), None)
        if severity is None:
            return self.passed(title)
        return self.diagnostic(
            title,
            advice="Move work from the fullest rank, which limits the batch of all: equal shards, and "
            "nothing gathered on rank 0 (`map_location` when loading, metrics reduced instead of gathered).",
            severity=severity,
            evidence={"memory_skew": round(skew, 3), "memory_share": round(used, 3)},
        )


def _distance(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Half the sum of differences between two histograms: 0 for equal ones, 1 for those apart."""
    middle = median((*one, *other))
    if middle <= 0:
        return 0.0
    # Two sets of borders: narrow peaks on either side of a border would look apart.
    return min(_shifted(one, other, BIN * middle, shift) for shift in (0.0, 0.5))


def _shifted(one: tuple[float, ...], other: tuple[float, ...], width: float, shift: float) -> float:
    first = Counter(int(ms / width + shift) for ms in one)
    second = Counter(int(ms / width + shift) for ms in other)
    return sum(abs(first[at] / len(one) - second[at] / len(other)) for at in first | second) / 2


def _memory_skew(ranks: tuple[RankFacts, ...]) -> tuple[float | None, float]:
    """How much less the emptiest rank uses than the fullest, and the largest share in use."""
    used = [rank.memory_bytes for rank in ranks if rank.memory_bytes is not None]
    shares = [rank.memory_share for rank in ranks if rank.memory_share is not None]
    if len(used) < 2 or max(used) <= 0:
        return None, 0.0
    return 1 - min(used) / max(used), max(shares, default=0.0)
