"""Threads of one operator spin while they wait for each other."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.disturbance import threads_collapsed
from advisor.profiles.facts.profile import Profile


class ThreadCollapse(Rule):
    """Threads that share one operator meet at its end, and each waits for the last.

    When a CPU is busy with something else, the thread on it arrives late and the others spin, or sleep,
    until it comes: with one busy neighbour, steps became 50 to 550 times slower. The sign is CPU time far
    below wall time x threads while the model computes. Free the CPU, set `OMP_WAIT_POLICY=PASSIVE` before
    the program starts, or compute with one thread: `torch.set_num_threads(1)`.
    """

    family = Family.HOST
    kind = Kind.RISK
    on_traces = "CPU time of the process: a trace does not hold it"
    threshold = (
        "CPU time below 60 % of wall time x threads, with other load on the machine or a single "
        "thread that is faster (set by experiment)"
    )
    knobs = ("omp_wait_policy", "num_threads", "cpu_affinity")
    explains = ("unstable_steps",)
    timed = False

    def check(self, profile: Profile) -> Finding:
        host, run, phases = profile.host, profile.run, profile.phases
        if host is None or host.cpu_per_wall is None:
            return self.not_applicable("CPU time of the process", "no steps were watched")
        if run is None:
            return self.not_applicable("number of threads", "no steps were recorded")
        if profile.device != "cpu":
            return self.not_applicable("threads that compute", f"the model runs on {profile.device}")
        used = f"{host.cpu_per_wall:.1f} CPUs are busy with {run.num_threads} "
        used += "thread" if run.num_threads == 1 else "threads"
        if not threads_collapsed(profile):
            return self.passed(used)
        evidence = {
            "cpu_per_wall": round(host.cpu_per_wall, 2),
            "num_threads": run.num_threads,
            "other_cpus": host.other_cpus,
            "one_thread_step_ms": host.one_thread_step_ms,
        }
        passive = "Let waiting threads sleep: set `OMP_WAIT_POLICY=PASSIVE` before the program starts."
        if host.one_thread_step_ms is None or phases is None or phases.step_ms <= 0:
            # Small operators keep few threads busy too: without the time of one thread this is a suspicion.
            return self.diagnostic(used, advice=passive, severity=Severity.LOW, evidence=evidence)
        share = 1 - host.one_thread_step_ms / phases.step_ms
        if share <= 0:
            return self.passed(f"{used}, and a single thread is not faster", **evidence)
        return self.opportunity(
            f"{percent(share)} of each step goes when one thread computes alone: {used}",
            self.timeline(share),
            advice=passive
            if host.other_cpus
            else "Compute with one thread: `torch.set_num_threads(1)`; sums are then added in another order, "
            "so results differ by rounding.",
            evidence={**evidence, "step_ms": round(phases.step_ms, 4)},
        )
