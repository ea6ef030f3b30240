"""Gradients are averaged over ranks more than once per update."""

from statistics import fmean

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.replayed import Share

THRESHOLD = 1.5  # bytes reduced over bytes of parameters; metrics and buffers make it a little more than 1
ACCUMULATING = 1.5  # backward passes per update from where a step accumulates


class RepeatedAllreduce(Rule):
    """An update needs each gradient averaged once, but here every backward averages them again.

    With accumulation, `DistributedDataParallel` exchanges gradients in each backward although only the last
    one is followed by an update. Run all but the last under `with model.no_sync():`, forward and backward
    both. The result is the same sum, added in another order.
    """

    family = Family.DISTRIBUTED
    kind = Kind.WASTE
    on_traces = "how often each gradient is reduced: a trace does not tell"
    threshold = (
        f"bytes reduced per update above {THRESHOLD} x the parameters' (PyTorch tuning guide: once; margin "
        "set by experiment)"
    )
    knobs = ("no_sync",)
    explains = ("exposed_communication",)

    def check(self, profile: Profile) -> Finding:
        ranks, run = profile.ranks, profile.run
        if not ranks:
            return self.not_applicable("ranks", "the run is a single process")
        seen = [rank.parameters_reduced for rank in ranks if rank.parameters_reduced is not None]
        if not seen or run is None:
            return self.not_applicable("bytes of each all-reduce", "none was seen")
        times = fmean(seen)
        title = f"{times:.1f} times the gradients are reduced per update"
        if times <= THRESHOLD:
            return self.passed(title)
        off, spare = profile.replays.communication_off, 1 - 1 / times
        accumulates = run.backwards_per_step >= ACCUMULATING
        return self.opportunity(
            title,
            self.measured(Share(off.share * spare, off.low * spare, off.high * spare))
            if off is not None
            else self.timeline(spare * fmean(rank.share("exposed") for rank in ranks)),
            advice="Run every backward but the last of an update, with its forward, under `with "
            "model.no_sync():`; sums are then added in another order."
            if accumulates
            else "Reduce each gradient once per update: `DistributedDataParallel` does it in backward, so "
            "leave out `all_reduce(parameter.grad)` after it.",
            location=next((root.location for root in profile.roots if root.parallel is not None), None),
            evidence={
                "times_reduced": round(times, 2),
                "backwards_per_update": run.backwards_per_step,
                "exposed_ms": round(fmean(rank.exposed_ms for rank in ranks), 4),
            },
            knobs=self.knobs if accumulates else (),
        )
