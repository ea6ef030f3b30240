"""A larger batch would cost little more time than the present one."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import LoaderFacts, Profile

THRESHOLD = 1.3  # time of twice the batch over that of the present one; set by experiment
SAFE = 0.8  # of memory, as for memory_pressure's host limit (TraceML)
FURTHEST = 8  # times the batch: beyond it a line through two points says nothing; set by experiment


class BatchTooSmall(Rule):
    """A step has a fixed cost: Python, launching operations, updating parameters. Small batches pay it often.

    Where twice the batch takes hardly more time, most of a step is that fixed cost. The ceiling is a line
    through two measured points, T(n) = a + b n, read at the largest batch that fits in 80 % of memory, at
    most 8 times the present one; time spent waiting for data is taken as growing with the batch.
    Raise `batch_size`. Each update then averages over more samples and an epoch has fewer of them: the
    learning rate must follow, and more samples may be needed for the same loss. Where gradients are
    accumulated over several batches, join these instead: that leaves the updates as they are.
    """

    family = Family.COMPUTE
    kind = Kind.HEADROOM
    on_traces = "time of twice the batch: needs the program itself"
    threshold = "twice the batch takes less than 1.3 times as long (set by experiment)"
    knobs = ("batch_size", "accumulation", "lr_scaling")
    explains = ("idle_device", "optimizer_bound")

    def check(self, profile: Profile) -> Finding:
        phases, double = profile.phases, profile.replays.double_batch
        if phases is None:
            return self.not_applicable("no steps were recorded")
        if profile.serves:
            return self.not_applicable("updates", "of requests the size is judged by `one_by_one`")
        if double is None:
            why = dict(profile.replays.refused).get("double_batch", "needs a replay")
            return self.not_applicable("time of twice the batch", why)
        said = f"{double.share:.2f} times the time for twice the batch"
        if double.share >= THRESHOLD:
            return self.passed(said)
        loader = profile.loader
        batch = loader.batch_size if loader is not None else None
        larger = _largest(profile)
        if larger < 2:
            return self.passed(f"{said}, for which memory or dataset leaves no room")
        ratio = max(1.0, double.share)
        per_sample = (2 - ratio) / larger + (ratio - 1)
        share = (1 - per_sample) * (1 - phases.share("input_wait"))
        return self.opportunity(
            f"{said} of {batch}" if batch is not None else said,
            self.modelled(share),
            advice=_advice(loader, larger, _accumulated(profile)),
            location=loader.location if loader is not None else None,
            evidence={
                "time_of_twice_the_batch": round(double.share, 3),
                "batch_size": batch,
                "times_the_batch": larger,
            },
        )


def _largest(profile: Profile) -> int:
    """How many times the batch fits in memory and dataset: a power of two; 2, as tried, where unknown."""
    room = float(FURTHEST)
    memory, loader = profile.memory, profile.loader
    limit = peak = activations = None
    if memory is not None:
        on_host = profile.device == "cpu"
        limit = memory.host_limit_bytes if on_host else memory.device_total_bytes
        peak = memory.host_peak_bytes if on_host else memory.device_peak_bytes
        activations = memory.activation_bytes
    if limit is None or peak is None or not activations:
        room = 2.0
    else:
        room = min(room, 1 + (SAFE * limit - peak) / activations)
    if loader is not None and loader.batch_size and loader.dataset_length is not None:
        room = min(room, loader.dataset_length / loader.batch_size)
    accumulated = _accumulated(profile)
    joined = (factor for factor in (8, 4, 2) if accumulated == 1 or accumulated % factor == 0)
    return next((factor for factor in joined if factor <= room), 1)


def _accumulated(profile: Profile) -> int:
    """Batches per update where some of them can be joined, else 1."""
    batches = round(profile.run.backwards_per_step) if profile.run is not None else 1
    return batches if batches and batches % 2 == 0 else 1


def _advice(loader: LoaderFacts | None, factor: int, accumulated: int) -> str:
    if loader is None or loader.batch_size is None:
        what = f"Make batches {factor} times as large"
    else:
        what = f"Raise the batch: `DataLoader(..., batch_size={factor * loader.batch_size})`"
    if accumulated > 1:
        return (
            f"{what} and accumulate {accumulated // factor} instead of {accumulated} of them per update: the "
            "updates stay the same but for batch statistics; it takes more memory."
        )
    return (
        f"{what}; learning rate and convergence change with it, so scale `lr` and compare the loss; "
        "it takes more memory."
    )
