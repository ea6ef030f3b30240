"""The first epoch is slow because nothing that it reads is in memory yet."""

from statistics import median

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.demand import FILE_BYTES
from advisor.profiles.facts.profile import LoaderFacts, Profile

SLOWER = 2.0  # first epoch's wait over that of later ones; set by experiment
LEAST_S = 1.0  # difference, below which it is a start like any other; set by experiment


class ColdCache(Rule):
    """What an epoch reads stays in the operating system's memory, so later epochs find it there.

    Only the first one waits for the disk or the network, once per start of the program. In a long run that
    is nothing; in a short one, or one that is started many times, it is a large part. Read the files once
    before training, `cat data/* > /dev/null`, while something else still starts, or keep a copy on a
    local disk. The share is that of the planned run: pass `--steps-planned` where the program does not say
    how long it is.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    on_traces = "items of two epochs: a trace does not time items"
    threshold = (
        f"batches of the first epoch are waited for {SLOWER:.0f} x as long as later ones (set by experiment)"
    )
    knobs = ("in_memory_cache",)
    explains = ("input_bound", "slow_storage", "unstable_steps")

    def check(self, profile: Profile) -> Finding:
        loader, run, phases = profile.loader, profile.run, profile.phases
        if loader is None:
            return self.not_applicable("data loader", "the program uses no DataLoader")
        if len(loader.epoch_wait_ms) < 2:
            return self.not_applicable("two complete epochs", "the run ended, or was stopped, before")
        if loader.item_read_bytes is not None and loader.item_read_bytes < FILE_BYTES:
            return self.passed(f"{loader.item_read_bytes} bytes per item are read from files")
        first_ms, later_ms = loader.epoch_wait_ms[0], median(loader.epoch_wait_ms[1:])
        batches = _batches_per_epoch(loader)
        if batches is None:
            return self.not_applicable("batches per epoch", "the dataset has no length")
        extra_s = (first_ms - later_ms) * batches / 1000
        told = f"{max(0.0, extra_s):.2g} s more are waited for data in the first epoch"
        if first_ms < SLOWER * later_ms or extra_s < LEAST_S:
            return self.passed(told)
        if run is None or run.steps_total is None or phases is None or phases.step_ms <= 0:
            return self.not_applicable(f"planned length of the run ({told})", "pass `--steps-planned`")
        planned_s = run.steps_total * phases.step_ms / 1000
        share = extra_s / max(planned_s, extra_s)
        return self.opportunity(
            f"{percent(share)} of the planned run is the first epoch's longer wait ({extra_s:.2g} s)",
            self.timeline(share, of="run"),
            advice="Read the files once before training, `cat data/* > /dev/null`, which takes their size in "
            "memory.",
            location=loader.location,
            evidence={
                "first_epoch_wait_ms": round(first_ms, 4),
                "later_epochs_wait_ms": round(later_ms, 4),
                "batches_per_epoch": batches,
                "steps_planned": run.steps_total,
            },
        )


def _batches_per_epoch(loader: LoaderFacts) -> int | None:
    if loader.dataset_length is None or not loader.batch_size:
        return None
    return max(1, loader.dataset_length // loader.batch_size)
