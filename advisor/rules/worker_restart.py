"""Every epoch starts its workers anew."""

from dataclasses import replace

from advisor.advice.finding import Ceiling, Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.demand import feeding
from advisor.profiles.facts.profile import LoaderFacts, Profile
from advisor.rules.slow_item import in_ms

THRESHOLD = 0.03  # of an epoch; set by experiment, Lightning warns for spawned workers


class WorkerRestart(Rule):
    """A loader ends its worker processes with each epoch and starts them again for the next.

    Starting takes some milliseconds each where processes are forked, and seconds where they are spawned,
    since each imports the program again; meanwhile they compete with the step for processors, and after a
    fork every page that the step writes to is copied. Short epochs pay that often. Keep the workers:
    `DataLoader(..., num_workers=2, persistent_workers=True)`. They hold their memory between epochs, keep
    their random state, and do not see what the program changes in its dataset after they have started.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    on_traces = "starts of workers: a trace does not tell"
    threshold = f"starting workers at least {THRESHOLD:.0%} of an epoch (set by experiment)"
    knobs = ("persistent_workers",)
    explains = ("input_bound",)

    def check(self, profile: Profile) -> Finding:
        loader = profile.loader
        if loader is None:
            return self.not_applicable("data loader", "the program uses no DataLoader")
        if loader.num_workers == 0:
            return self.passed("0 workers are started")
        if loader.constructed > 1:
            return self.not_applicable("one loader for all epochs", "see `loader_recreated`")
        if loader.persistent_workers:
            return self.passed("persistent_workers is on")
        if loader.epochs_started < 2:
            return self.not_applicable("a second epoch", f"{loader.epochs_started} was seen")
        start_ms = start_of_workers_ms(profile, loader)
        if start_ms is None or not loader.epoch_wall_s:
            return self.not_applicable("time of starting workers", "needs two epochs that deliver batches")
        share = min(1.0, start_ms / 1000 / loader.epoch_wall_s)
        title = (
            f"{percent(share)} of each epoch starts {loader.num_workers} "
            f"worker{'s' * (loader.num_workers > 1)} ({in_ms(start_ms)})"
        )
        if share < THRESHOLD:
            return self.passed(title)
        return self.opportunity(
            title,
            ceiling_of_start(self, loader, start_ms),
            advice="Keep workers between epochs: `DataLoader(..., persistent_workers=True)`; they hold their "
            "memory meanwhile and do not see later changes of the dataset.",
            location=loader.location,
            evidence={
                "worker_start_ms": round(start_ms, 4),
                "first_step_ms": loader.first_step_ms and round(loader.first_step_ms, 4),
                "epoch_s": round(loader.epoch_wall_s, 4),
                "num_workers": loader.num_workers,
                "multiprocessing_context": loader.multiprocessing_context,
            },
        )


def start_of_workers_ms(profile: Profile, loader: LoaderFacts) -> float | None:
    """What starting the workers of an epoch costs: not the first batch, nor drawing its numbers."""
    if loader.worker_start_ms is None:
        return None
    fed = feeding(profile)
    first_ms = 0.0 if fed is None else max(0.0, fed.making_ms - fed.wait_ms)
    return max(0.0, loader.worker_start_ms - first_ms - (loader.first_draw_ms or 0.0))


def ceiling_of_start(rule: Rule, loader: LoaderFacts, start_ms: float) -> Ceiling:
    """What goes if an epoch starts nothing: the time itself, and by what that slows the first step down."""
    epoch_ms = 1000 * (loader.epoch_wall_s or 0.0)
    certain = rule.timeline(start_ms / epoch_ms, of="run")
    slowed_ms = max(0.0, loader.first_step_ms or 0.0) if loader.num_workers else 0.0
    return replace(rule.timeline((start_ms + slowed_ms) / epoch_ms, of="run"), low=certain.low)
