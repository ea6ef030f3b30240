"""Little of the communication runs while something computes."""

from statistics import fmean

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.exchanged import START_EARLIER, mostly_directed
from advisor.profiles.facts.profile import Profile
from advisor.rules.exposed_communication import has_wrapper

THRESHOLD = 0.70  # of all communication (TraceLens, Holistic Trace Analysis)


class LowOverlap(Rule):
    """Gradients can be sent while backward still computes the next ones, and here most of them are not.

    A bucket that is too large starts late, one that is too small leaves gaps; an order of gradients that
    differs from the order of buckets makes both wait. Try `bucket_cap_mb` of 5, 25 and 100, and
    `static_graph=True` where every step uses the same parameters. Sharded models fetch parameters ahead
    with `model.set_modules_to_forward_prefetch([...])`, which takes memory for one more block.
    """

    family = Family.DISTRIBUTED
    kind = Kind.WASTE
    on_traces = "exchanges with other processes: the trace holds none"
    threshold = (
        "overlapped communication below 70 % of all (TraceLens, Holistic Trace Analysis), "
        "worth 2 % of the step"
    )
    knobs = ("ddp", "fsdp")
    explains = ("exposed_communication",)

    def check(self, profile: Profile) -> Finding:
        ranks = profile.ranks
        if not ranks:
            return self.not_applicable("ranks", "the run is a single process")
        all_ms = fmean(rank.communication_ms for rank in ranks)
        if all_ms <= 0:
            return self.passed("0.0 % of the step communicates")
        exposed_ms = fmean(rank.exposed_ms for rank in ranks)
        overlapped = max(0.0, 1 - exposed_ms / all_ms)
        title = f"{percent(overlapped)} of the communication overlaps with computing"
        if overlapped >= THRESHOLD:
            return self.passed(title)
        off, directed = profile.replays.communication_off, mostly_directed(profile)
        sharded = any((root.parallel or "").startswith(("FSDP", "Fully")) for root in profile.roots)
        if not (directed or sharded or has_wrapper(profile)):
            return self.passed(f"{title}: nothing wraps the model that would send during backward")
        return self.opportunity(
            title,
            self.measured(off)
            if off is not None
            else self.timeline(fmean(rank.share("exposed") for rank in ranks)),
            advice=START_EARLIER
            if directed
            else "Fetch the next block ahead: `block.set_modules_to_forward_prefetch([next_block])`; it "
            "takes memory for one more block."
            if sharded
            else "Try other buckets: `DistributedDataParallel(model, bucket_cap_mb=5)`, then 100; sums are "
            "then added in another order.",
            location=next((root.location for root in profile.roots if root.parallel is not None), None),
            evidence={"communication_ms": round(all_ms, 4), "exposed_ms": round(exposed_ms, 4)},
            knobs=() if directed else ("fsdp",) if sharded else ("ddp",),
        )
