"""A new loader is built for every epoch."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import LoaderFacts, Profile
from advisor.rules.slow_item import in_ms
from advisor.rules.worker_restart import ceiling_of_start, start_of_workers_ms


class LoaderRecreated(Rule):
    """The same line builds a DataLoader again and again, once for each epoch.

    Building one is cheap unless its sampler or dataset does work at the start, but each new loader also
    starts new worker processes, whatever `persistent_workers` says. Build it once, before the loop over
    epochs; a shuffled loader draws a new order in every epoch by itself. Where it must be built anew, do not
    join `pin_memory=True` with `persistent_workers=True`: each such loader leaves files open until the
    process may open no more.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    on_traces = "construction of loaders: a trace does not hold it"
    threshold = (
        "several loaders from one line, whose construction and workers' start take at least 2 % of an epoch "
        "(set by experiment), or which pin memory with persistent workers (Lightning)"
    )

    explains = ("input_bound",)  # each starts with nothing prepared

    def check(self, profile: Profile) -> Finding:
        loader = profile.loader
        if loader is None:
            return self.not_applicable("data loader", "the program uses no DataLoader")
        if not loader.epochs_started:
            return self.not_applicable("a complete epoch", "no steps were recorded")
        if loader.constructed < 2:
            return self.passed("1 loader serves all epochs")
        evidence = {
            "loaders": loader.constructed,
            "construct_ms": loader.construct_ms and round(loader.construct_ms, 4),
            "epoch_s": loader.epoch_wall_s and round(loader.epoch_wall_s, 4),
            "num_workers": loader.num_workers,
        }
        if loader.num_workers and loader.persistent_workers and loader.pin_memory and profile.machine.cuda:
            return self.diagnostic(
                f"{loader.constructed} loaders that pin memory and keep workers each leave files open",
                advice="Build the DataLoader once, before the loop over epochs, or without "
                "`persistent_workers=True`.",
                location=loader.location,
                evidence=evidence,
                kind=Kind.RISK,
            )
        if loader.construct_ms is None or not loader.epoch_wall_s:
            return self.not_applicable("time of constructing a loader", "needs two epochs")
        start_ms = start_of_workers_ms(profile, loader) if loader.num_workers else 0.0
        if start_ms is None:
            return self.not_applicable("time of starting workers", "needs two epochs that deliver batches")
        spent_ms = loader.construct_ms + start_ms
        share = min(1.0, spent_ms / 1000 / loader.epoch_wall_s)
        return self.opportunity(
            f"{percent(share)} of each epoch builds a new loader ({in_ms(spent_ms)})",
            ceiling_of_start(self, loader, spent_ms),
            advice=_advice(loader),
            location=loader.location,
            evidence=evidence,
        )


def _advice(loader: LoaderFacts) -> str:
    once = "Build the DataLoader once, before the loop over epochs"
    if loader.num_workers:
        return f"{once}, with `persistent_workers=True`; its workers hold their memory between epochs."
    return f"{once}."
