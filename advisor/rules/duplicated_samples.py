"""Several workers or ranks deliver the same samples."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

MOST = 0.6  # of what is delivered twice if everything is; samples alike by chance stay below (experiment)

WORKER_ADVICE = (
    "Give each worker its share in `__iter__`, so that an epoch holds each sample once: "
    "`info = torch.utils.data.get_worker_info(); "
    "yield from itertools.islice(items, info.id, None, info.num_workers)`."
)
RANK_ADVICE = (
    "Give each rank its share, so that an epoch holds each sample once: "
    "`DataLoader(..., sampler=DistributedSampler(dataset))`, with `sampler.set_epoch(epoch)`."
)


class DuplicatedSamples(Rule):
    """One epoch trains on the same samples several times, without anyone having asked for it.

    An iterable dataset is copied into every worker, and each copy walks through all the data unless it is
    told its share; with two workers everything comes twice. The same happens between ranks without a
    `DistributedSampler`. An epoch then takes as many times longer, and what is learnt is no longer what the
    number of epochs says. Ask `torch.utils.data.get_worker_info()` in `__iter__` and yield every n-th
    sample only; across ranks divide by rank as well.
    """

    family = Family.INPUT
    kind = Kind.RISK
    on_traces = "samples of each worker: a trace does not hold them"
    threshold = (
        f"{MOST:.0%} of the copies that would come if no worker or rank had a share of its own "
        "(set by experiment)"
    )
    severity = Severity.HIGH
    timed = False
    correctness = True

    def check(self, profile: Profile) -> Finding:
        loader = profile.loader
        ranks = [rank.duplicate_share for rank in profile.ranks or () if rank.duplicate_share is not None]
        workers = loader.duplicate_share if loader is not None else None
        if workers is None and not ranks:
            return self.not_applicable(
                "samples of several workers", "needs an iterable dataset with two workers or more"
            )
        location = loader.location if loader is not None else None
        evidence = {
            "share_from_another_worker": workers,
            "share_from_another_rank": max(ranks, default=None),
            "num_workers": loader.num_workers if loader is not None else None,
        }
        if workers is not None and loader is not None and workers >= MOST * _all(loader.num_workers):
            return self.diagnostic(
                f"{percent(workers)} of the samples had come from another worker already",
                advice=WORKER_ADVICE,
                location=location,
                evidence=evidence,
            )
        if max(ranks, default=0.0) >= MOST:
            return self.diagnostic(
                f"{percent(max(ranks))} of a rank's samples are those of another rank too",
                advice=RANK_ADVICE,
                location=location,
                evidence=evidence,
            )
        share = max([*ranks, workers or 0.0])
        return self.passed(f"{percent(share)} of the samples came twice", **evidence)


def _all(workers: int) -> float:
    """Share that others had delivered before if each worker delivers everything."""
    return 1 - 1 / max(2, workers)
