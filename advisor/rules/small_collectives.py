"""Ranks exchange many small tensors one by one."""

from math import prod
from statistics import fmean, median

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

MANY = 20  # exchanges in a step; set by experiment
SMALL = (
    65_536  # elements, a quarter of a MiB in float32: below it latency costs more than bytes (by experiment)
)
THRESHOLD = 0.05  # of the step that is not overlapped, as for `exposed_communication` (TraceLens)


class SmallCollectives(Rule):
    """Every exchange between ranks costs its latency, whatever its size, and each one that blocks a meeting.

    Gradients averaged by hand, one `all_reduce` for each parameter, pay that hundreds of times in a step and
    overlap with nothing. `DistributedDataParallel` joins gradients to buckets and sends them while backward
    goes on. By hand, copy all gradients into one flat tensor, reduce that once and copy it back. A
    `barrier` in the loop adds a meeting and orders nothing that the exchanges do not.
    """

    family = Family.DISTRIBUTED
    kind = Kind.WASTE
    on_traces = "exchanges with other processes: the trace holds none"
    threshold = (
        f"{MANY} exchanges in a step with at most {SMALL:,} elements in the median (set by experiment)"
    )
    explains = ("exposed_communication", "low_overlap", "comm_not_worth_it", "unattributed_time")
    recorded = True

    def check(self, profile: Profile) -> Finding:
        ranks, window = profile.ranks, profile.window
        if not ranks:
            return self.not_applicable("ranks", "the run is a single process")
        if window is None or not window.ops:
            return self.not_applicable("operators", "need steps recorded by torch.profiler")
        exchanges = [op for op in window.ops if op.name.startswith("c10d::") and "barrier" not in op.name]
        count = sum(op.calls for op in exchanges)
        said = f"{count:.0f} exchanges between ranks in each step"
        share = fmean(rank.share("exposed") for rank in ranks)
        if count < MANY or share < THRESHOLD:
            return self.passed(said)
        known = [op for op in exchanges if op.shapes]
        sizes = [prod(op.shapes[0]) for op in known for _ in range(max(1, round(op.calls)))]
        usual = median(sizes) if sizes else None
        said += ", of unknown size" if usual is None else f", {usual:,.0f} elements in the median"
        if usual is not None and usual > SMALL:
            return self.passed(said)
        most = max(exchanges, key=lambda op: op.calls)
        barriers = sum(op.calls for op in window.ops if op.name.startswith("c10d::barrier"))
        advice = "Wrap the model in `DistributedDataParallel`, or copy all gradients into one tensor and "
        advice += "reduce that once; sums are then added in another order."
        return self.opportunity(
            f"{percent(share)} of each step goes to {said}",
            self.timeline(share),
            advice=advice + (" Drop the `barrier` from the loop." if barriers else ""),
            location=most.location,
            evidence={
                "exchanges_per_step": round(count, 1),
                "barriers_per_step": round(barriers, 1),
                "median_elements": usual,
            },
        )
