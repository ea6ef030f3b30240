"""One rank is slower, and all others wait for it."""

from statistics import median

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.observed import RankFacts
from advisor.profiles.facts.profile import Profile

THRESHOLD = 0.10  # of the step: wait of the victim less that of the culprit (TraceML; 20 % is its next band)
NAMED = 0.80  # of that difference, from where a phase is named as its cause (TraceML)
PARTS = ("compute", "input_wait", "idle")  # where a rank's phases are not known


class Straggler(Rule):
    """Ranks meet at every exchange of gradients, so the slowest of them sets the pace of all.

    The slow one waits least, since the others are there already; how much longer they wait is the time
    that goes. Usual causes are a rank with more data or longer samples, a slower disk, a busy CPU, or a
    device that is throttled. Look at the phase in which that rank is slower, and repair it on that rank.
    """

    family = Family.DISTRIBUTED
    kind = Kind.WASTE
    on_traces = "steps of two ranks: needs their traces, one file each"
    threshold = "longest less shortest wait at least 10 % of the step (TraceML)"
    explains = ("exposed_communication",)

    def check(self, profile: Profile) -> Finding:
        ranks = profile.ranks
        if not ranks or len(ranks) < 2:
            return self.not_applicable("ranks", "the run is a single process")
        step_ms = median(rank.step_ms for rank in ranks)
        culprit, victim = min(ranks, key=_wait), max(ranks, key=_wait)
        lost_ms = victim.wait_ms - culprit.wait_ms
        share = lost_ms / step_ms if step_ms > 0 else 0.0
        if share < THRESHOLD:
            return self.passed(f"{percent(share)} of the step is the longest wait for another rank")
        phase = _cause(culprit, victim, lost_ms)
        # Sharded ranks also wait inside gathers, which the difference does not tell apart.
        sharded = any((root.parallel or "").startswith(("FSDP", "Fully")) for root in profile.roots)
        return self.opportunity(
            f"{percent(share)} of each step waits for rank {culprit.rank}"
            + (f", slow in {phase.replace('_', ' ')}" if phase else ""),
            self.modelled(share) if sharded else self.timeline(share),
            advice=f"Compare rank {culprit.rank} with the others"
            + (
                f" in {phase.replace('_', ' ')}: its share of the data, its CPUs, its device."
                if phase
                else ": `nvidia-smi`, `top` and its share of the data; no single phase explains its delay."
            ),
            evidence={
                "slow_rank": culprit.rank,
                "waiting_rank": victim.rank,
                "lost_ms": round(lost_ms, 4),
                "step_ms": round(step_ms, 4),
                "phase": phase,
            },
        )


def _wait(rank: RankFacts) -> float:
    return rank.wait_ms


def _cause(culprit: RankFacts, victim: RankFacts, lost_ms: float) -> str | None:
    """The phase in which the slow rank loses at least ``NAMED`` of the difference."""
    slow, fast = _parts(culprit), _parts(victim)
    excess = {part: spent - fast.get(part, 0.0) for part, spent in slow.items() if part != "communication"}
    worst = max(excess, key=lambda part: excess[part], default=None)
    return worst if worst is not None and excess[worst] >= NAMED * lost_ms else None


def _parts(rank: RankFacts) -> dict[str, float]:
    return dict(rank.phases_ms) or {part: getattr(rank, f"{part}_ms") for part in PARTS}
