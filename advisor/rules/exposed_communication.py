"""Ranks exchange gradients while nothing computes."""

from statistics import fmean

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.exchanged import START_EARLIER, mostly_directed
from advisor.profiles.facts.profile import Profile

WRAP = (
    "Wrap the model in `DistributedDataParallel`, which exchanges gradients in buckets during backward; "
    "sums are then added in another order."
)
THRESHOLD = 0.05  # of the step (TraceLens); the TensorBoard plug-in warns at 10 %


class ExposedCommunication(Rule):
    """Gradients are exchanged between ranks, and what backward does not cover is paid on every step.

    It grows with the bytes of the model, the slowness of the link and the waiting for the slowest rank.
    Send larger buckets, fewer bytes or less often: `DistributedDataParallel(model, bucket_cap_mb=100,
    gradient_as_bucket_view=True)`, a hook that compresses gradients (fewer bits), or several backward
    passes per exchange (a larger batch).
    """

    family = Family.DISTRIBUTED
    kind = Kind.WASTE
    on_traces = "exchanges with other processes: the trace holds none"
    threshold = "communication that nothing overlaps above 5 % of the step (TraceLens)"
    knobs = ("ddp", "accumulation", "local_sgd")
    explains = ("unattributed_time",)

    def check(self, profile: Profile) -> Finding:
        ranks = profile.ranks
        if not ranks:
            return self.not_applicable("ranks", "the run is a single process")
        share = fmean(rank.share("exposed") for rank in ranks)
        if share <= THRESHOLD:
            return self.passed(f"{percent(share)} of the step communicates without computing")
        off, directed = profile.replays.communication_off, mostly_directed(profile)
        return self.opportunity(
            f"{percent(share)} of each step communicates without computing",
            self.measured(off) if off is not None else self.timeline(share),
            advice=START_EARLIER
            if directed
            else "Send larger buckets: `DistributedDataParallel(model, bucket_cap_mb=100, "
            "gradient_as_bucket_view=True)`; sums are then added in another order."
            if has_wrapper(profile)
            else WRAP,
            knobs=() if directed or not has_wrapper(profile) else None,
            location=next((root.location for root in profile.roots if root.parallel is not None), None),
            evidence={
                "ranks": len(ranks),
                "exposed_ms": round(fmean(rank.exposed_ms for rank in ranks), 4),
                "communication_ms": round(fmean(rank.communication_ms for rank in ranks), 4),
            },
        )


def has_wrapper(profile: Profile) -> bool:
    """Whether any model is wrapped in one of torch's own ways to train on several ranks."""
    if profile.target_kind == "trace":
        return profile.window is not None and profile.window.wrapped
    return any(root.parallel is not None for root in profile.roots)


def by_hand(profile: Profile) -> float:
    """Share (0 to 1) of the step in exchanges that the program makes itself, in none of its known parts."""
    if not profile.ranks or has_wrapper(profile):
        return 0.0
    return fmean(rank.share("exposed") for rank in profile.ranks)
