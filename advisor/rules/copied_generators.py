"""The dataset draws from a generator of its own, which every worker gets a copy of."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.derived.copies import generator_of
from advisor.profiles.facts.profile import Profile


class CopiedGenerators(Rule):
    """Workers are copies of the program, and so are the random generators that the dataset holds.

    All workers then draw the same numbers: each augmentation comes once from every worker. Workers that are
    started anew for each epoch start from the same copy again, so every epoch repeats the last one. torch
    seeds the global generators of `random`, numpy and torch in each worker, and no other ones. Draw from
    those, or make the generator in each worker from `torch.initial_seed()`, another one by worker and epoch.
    """

    family = Family.INPUT
    kind = Kind.RISK
    on_traces = "what the dataset holds: a trace does not show it"
    threshold = "a generator in the dataset or collate function that items draw from (no threshold)"
    timed = False
    correctness = True

    def check(self, profile: Profile) -> Finding:
        loader = profile.loader
        if loader is None:
            return self.not_applicable("what the dataset holds", "needs a DataLoader")
        generator = generator_of(loader)
        if generator is None:
            return self.passed("the dataset draws from no generator of its own")
        now = loader.num_workers > 0
        told = f"{loader.num_workers} workers draw" if loader.num_workers > 1 else "2 workers would draw"
        return self.diagnostic(
            f"{told} the same numbers, each from its copy of `{generator.name}` ({generator.type})",
            advice="Make it in each process, on first use in `__getitem__` or in `worker_init_fn`: "
            "`numpy.random.default_rng(torch.initial_seed() % 2**32)`. Or draw from the global generators, "
            "which torch seeds in each worker.",
            severity=Severity.HIGH if now else Severity.LOW,
            location=generator.location,
            evidence={"generator": generator.type, "num_workers": loader.num_workers},
            knobs=(),
        )
