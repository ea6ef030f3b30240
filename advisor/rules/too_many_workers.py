"""Loader workers ask for more CPUs than there are."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.derived.demand import computing_threads, cpu_use, rank_count
from advisor.profiles.facts.profile import Profile
from advisor.rules.narrowed_affinity import is_narrowed

SPARE_CPUS = 1  # may be asked for beyond those allowed: on two cores three cost nothing clear (measured)
PER_CPU = 4  # workers, whatever they do; torch and Lightning warn from one per CPU


class TooManyWorkers(Rule):
    """Workers that compute take the CPUs that the training, or the other workers, would need.

    Each of them then gets only part of a CPU and none is done earlier; on two cores, computing workers
    brought 0.8 to 0.9 of the speed without them. Workers that wait for storage need little CPU, so their
    number alone says nothing: what counts is threads + workers x the share of an item's time that is CPU
    time, for all ranks together. Many workers also cost memory and start-up time.
    Give the loader fewer: `DataLoader(..., num_workers=1)`.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    on_traces = "number of workers and of CPUs: a trace does not hold them"
    threshold = (
        f"threads and busy workers ask for over {SPARE_CPUS} CPU more than allowed (measured), or more than "
        f"{PER_CPU} workers per CPU (set by experiment)"
    )
    knobs = ("num_workers",)
    explains = ("thread_oversubscription", "input_bound")

    def check(self, profile: Profile) -> Finding:
        loader, allowed = profile.loader, profile.machine.cpus_allowed
        if is_narrowed(profile):
            return self.not_applicable("CPUs of the process", "it has bound itself: see `narrowed_affinity`")
        if loader is None:
            return self.not_applicable("data loader", "the program uses no DataLoader")
        if loader.num_workers == 0:
            return self.passed("0 workers beside the training")
        ranks = rank_count(profile)
        workers = ranks * loader.num_workers
        threads, used = computing_threads(profile), cpu_use(profile)
        most = PER_CPU * allowed
        evidence = {
            "num_workers": loader.num_workers,
            "ranks": ranks,
            "threads": threads,
            "cpus_asked_for": used and round(used, 2),
            "cpus_allowed": allowed,
            "cpu_share": loader.cpu_share and round(loader.cpu_share, 3),
        }
        # Threads beyond the CPUs are the matter of thread_oversubscription.
        crowded = used is not None and threads is not None and used > max(allowed, threads) + SPARE_CPUS
        if not crowded and workers > most:
            return self.diagnostic(
                f"{workers} workers share {_cpus(allowed)}",
                advice=_advice(most // ranks, loader.num_workers),
                severity=Severity.LOW if used is not None else None,
                location=loader.location,
                evidence=evidence,
            )
        if used is None or threads is None:
            return self.not_applicable(
                "CPU share of an item's time", "needs steps, and items that can be fetched singly"
            )
        title = f"{used:.1f} CPUs are asked for by training and workers, of {allowed} allowed"
        if not crowded:
            return self.passed(title, **evidence)
        room = max(allowed, threads) + SPARE_CPUS - threads
        fit = min(room / (ranks * (loader.cpu_share or 1.0)), most / ranks)
        return self.diagnostic(
            title, advice=_advice(int(fit), loader.num_workers), location=loader.location, evidence=evidence
        )


def _advice(fit: int, present: int) -> str:
    fewer = min(fit, present - 1)
    return f"Give the loader fewer workers: `DataLoader(..., num_workers={fewer})` in place of {present}."


def _cpus(count: int) -> str:
    return f"{count} CPU{'s' * (count != 1)}"
