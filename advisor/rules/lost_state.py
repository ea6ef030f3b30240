"""Making items changes the dataset, and what changes is lost with the workers that made them."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile


class LostState(Rule):
    """Each worker makes items from a copy of the dataset, so what an item writes into it stays in that copy.

    A cache is filled in each worker by itself, and where workers end with the epoch it is empty again in the
    next: everything is read or decoded anew, and the cache only costs memory. A counter or a curriculum that
    items move on does not move in the program. Fill the cache before the workers start, in `__init__`; or
    keep them, `persistent_workers=True`, and let each fill one of its own; or share it, as a
    `multiprocessing.Manager` or a tensor in shared memory does.
    """

    family = Family.INPUT
    kind = Kind.RISK
    on_traces = "what the dataset holds: a trace does not show it"
    threshold = "an attribute of the dataset that items change (no threshold)"
    timed = False
    knobs = ("persistent_workers",)
    explains = ("slow_item", "worker_restart", "input_bound", "cold_cache")

    def check(self, profile: Profile) -> Finding:
        loader = profile.loader
        if loader is None:
            return self.not_applicable("what the dataset holds", "needs a DataLoader")
        name = loader.items_change
        if name is None:
            return self.passed("making items changes nothing in the dataset")
        evidence = {"attribute": name, "num_workers": loader.num_workers}
        if not loader.num_workers:
            return self.diagnostic(
                f"1 attribute of the dataset changes as items are made, `{name}`: each worker would change a "
                "copy of its own",
                advice=f"Before you use workers, fill `{name}` in `__init__`, or share it between processes.",
                severity=Severity.LOW,
                location=loader.location,
                evidence=evidence,
                knobs=(),
            )
        workers = f"{loader.num_workers} worker{'s' * (loader.num_workers > 1)}"
        if not loader.items_cached:
            return self.diagnostic(
                f"{workers} change{'s' * (loader.num_workers == 1)} `{name}` of the dataset in copies of "
                "their own, which the program does not see",
                advice=f"Keep `{name}` where all processes see it, as a `multiprocessing.Value`, or count in "
                "the training loop.",
                severity=Severity.LOW,
                location=loader.location,
                evidence=evidence,
                knobs=(),
            )
        if loader.persistent_workers:
            return self.passed(f"`{name}` stays in each worker", **evidence)
        return self.diagnostic(
            f"{workers} fill `{name}` with what items need, and lose it at the end of each epoch",
            kind=Kind.WASTE,
            advice="Keep the workers with what they have: `DataLoader(..., persistent_workers=True)`; each "
            f"then fills a `{name}` of its own. Or fill it in `__init__`, before they start.",
            severity=Severity.MEDIUM,
            location=loader.location,
            evidence=evidence,
        )
