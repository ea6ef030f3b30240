"""A step waits while the loader prepares its batch."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import TIMELINE_ERROR, Family, Rule, percent
from advisor.profiles.derived.copies import against_workers
from advisor.profiles.derived.demand import cpu_demand, is_piped
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.replayed import Share
from advisor.rules.kept_batches import before_workers
from advisor.rules.slow_sampler import waits_for_sampler

MANY = "_MultiProcessing"  # begins the name of the iterator that has workers; a trace does not tell how many
THRESHOLD = 0.05  # where PyTorch's TensorBoard plug-in starts to warn


class InputBound(Rule):
    """A step cannot start before its batch arrives, so the wait is paid on every step.

    It costs time because nothing else happens meanwhile: the device, or the CPU that computes, stands still.
    Prepare batches in more worker processes, or prepare them once and store them.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    on_traces = "data loader: the trace holds no range of one"
    threshold = "input wait at least 5 % of the step (PyTorch TensorBoard plug-in)"
    knobs = ("num_workers", "prefetch_factor", "in_memory_cache")
    explains = ("unstable_steps", "idle_device")

    def check(self, profile: Profile) -> Finding:
        phases, loader = profile.phases, profile.loader
        if phases is None:
            return self.not_applicable("no steps were recorded")
        iterating = profile.window.loader if profile.window is not None else ""
        if loader is None and not iterating:
            return self.not_applicable("data loader", "the program uses no DataLoader")
        workers = (None if iterating.startswith(MANY) else 0) if loader is None else loader.num_workers
        share = phases.share("input_wait")
        if share < THRESHOLD:
            return self.passed(f"{percent(share)} of the step waits for data")
        free = without_wait(profile)
        ceiling = self.timeline(share) if free is None else self.measured(free)
        if ceiling.low < self.least:
            return self.passed(
                f"{percent(share)} of each step waits for data while other work goes on: "
                "with the data at hand it takes as long"
            )
        return self.opportunity(
            f"{percent(share)} of each step waits for data",
            ceiling,
            advice=_advice(profile, workers),
            location=None if loader is None else loader.location,
            evidence={
                "input_wait_ms": round(phases.input_wait_ms, 4),
                "step_ms": round(phases.step_ms, 4),
                "num_workers": workers,
            },
            knobs=() if waits_for_sampler(profile) else None,
        )


def without_wait(profile: Profile) -> Share | None:
    """The replay without a loader, certain only of what the step was seen to wait: without workers the CPU is
    freer, too. ``None`` where there was none.

    Workers may deliver in bursts, which a replay is too short for, and without any a replay beside other
    load may tell little; on a CPU, where nothing else goes on while a step waits, the wait that was watched
    is certain.
    """
    free, phases, loader = profile.replays.loader_free, profile.phases, profile.loader
    if free is None or phases is None:
        return free
    waited = phases.share("input_wait")
    low, seen = min(free.low, waited), waited * (1 - TIMELINE_ERROR)
    if loader is None or profile.device != "cpu":
        return Share(free.share, low, free.high)
    if not loader.num_workers:  # the wait itself is the making of items, whatever else runs on the machine
        vague = free.low < waited / 2 and free.high >= seen
        return Share(waited, seen, max(waited, free.high)) if vague else Share(free.share, low, free.high)
    return Share(max(free.share, waited), max(low, seen), max(free.high, waited))


def _advice(profile: Profile, num_workers: int | None) -> str:
    if waits_for_sampler(profile):
        return "Draw the numbers of items faster: much of the wait is the sampler's."
    if profile.loader is not None and is_piped(profile.loader):
        return "Keep what items read in shared memory: now one process sends it to whoever makes them."
    if num_workers is None:
        return "Make items cheaper, or give the loader more workers: `DataLoader(..., num_workers=...)`."
    if not num_workers:
        return _first_workers(profile)
    demand = cpu_demand(profile)
    if demand is not None and demand >= profile.machine.cpus_allowed:
        return "Make items cheaper, or prepare them once and store them: more workers would find no free CPU."
    return f"Make items cheaper, or give the loader more than {num_workers} workers."


def _first_workers(profile: Profile) -> str:
    """As many workers as would make the same items, and what stands against more."""
    loader = profile.loader
    against = None if loader is None else against_workers(loader, 1) or against_workers(loader, 2)
    if loader is None or against is None:
        return f"Make batches in worker processes: `DataLoader(..., num_workers=2)`.{before_workers(profile)}"
    if against_workers(loader, 1) is None:
        return f"Make batches in a worker process: `DataLoader(..., num_workers=1)`, no more: {against}."
    return f"Make items cheaper. Workers come after another change: {against}."
