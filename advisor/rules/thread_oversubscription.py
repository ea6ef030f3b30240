"""More threads ask for CPUs than this process may use."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.demand import cpu_use, rank_count
from advisor.profiles.derived.disturbance import THROTTLED
from advisor.profiles.facts.profile import Profile
from advisor.rules.narrowed_affinity import is_narrowed

SPARE_CPUS = (
    1  # that busy workers may take beyond the CPUs allowed, as in what tuning tries; set by experiment
)


class ThreadOversubscription(Rule):
    """More threads are ready to compute than there are CPUs to run them, so they take turns.

    Every operator waits for its slowest thread, and that one may not even be running: four threads on two
    cores reached 0.30 of the speed of two. Ranks and loader workers count too, since each rank brings its
    own threads and each worker that computes takes a CPU. Give each process its share:
    `torch.set_num_threads(n)` with n = CPUs / ranks, less what its workers need.
    """

    family = Family.HOST
    kind = Kind.RISK
    on_traces = "number of threads and CPUs: a trace does not hold them"
    threshold = (
        "threads x ranks above the CPUs allowed, with busy loader workers more than one above them, or the "
        "CPU quota used up in 5 % of its periods (set by experiment)"
    )
    knobs = ("num_threads", "num_workers")
    explains = ("thread_collapse", "unstable_steps")
    timed = False

    def check(self, profile: Profile) -> Finding:
        run, allowed = profile.run, profile.machine.cpus_allowed
        if is_narrowed(profile):
            return self.not_applicable("CPUs of the process", "it has bound itself: see `narrowed_affinity`")
        if run is None:
            return self.not_applicable("number of threads", "no steps were recorded")
        if profile.device != "cpu":
            return self.not_applicable("threads that compute", f"the model runs on {profile.device}")
        ranks = rank_count(profile)
        threads = ranks * run.num_threads
        used = cpu_use(profile)
        workers = max(0.0, used - threads) if used is not None else 0.0
        throttled = profile.host.throttled_share if profile.host is not None else None
        computing = f"{_threads(run.num_threads, ranks)} compute{'s' * (threads == 1)}"
        if threads > allowed:
            title = f"{computing} on {_cpus(allowed)}"
        elif threads + workers > allowed + SPARE_CPUS and threads > ranks:
            title = f"{threads + workers:.1f} CPUs are asked for by threads and workers, of {allowed} allowed"
        elif throttled is not None and throttled > THROTTLED and threads > ranks:
            title = (
                f"{percent(throttled)} of the CPU quota's periods are used up by "
                f"{_threads(run.num_threads, ranks)}"
            )
        else:
            return self.passed(f"{computing} on {_cpus(allowed)}")
        fit = max(1, min(run.num_threads - 1, int((allowed - workers) / ranks)))
        each = " in every rank" if ranks > 1 else ""
        return self.diagnostic(
            title,
            advice=f"Compute with fewer threads: `torch.set_num_threads({fit})`{each}; sums are then added "
            "in another order, so results differ by rounding."
            if run.num_threads > 1
            else f"Start at most {allowed} ranks: `torchrun --nproc-per-node={allowed}`; the global batch "
            "shrinks with them unless each takes more samples.",
            evidence={
                "num_threads": run.num_threads,
                "ranks": ranks,
                "cpus_allowed": allowed,
                "cpus_of_workers": round(workers, 2),
                "throttled_share": throttled,
            },
        )


def _threads(threads: int, ranks: int) -> str:
    said = f"{threads} thread{'s' * (threads != 1)}"
    return f"{ranks} ranks with {said} each" if ranks > 1 else said


def _cpus(count: int) -> str:
    return f"{count} CPU{'s' * (count != 1)}"
