"""Other programs use the CPUs that this run computes on."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.derived.disturbance import OTHER_CPUS
from advisor.profiles.facts.profile import Profile


class OtherLoad(Rule):
    """Processes that do not belong to this run were using CPU time while it was measured.

    They take turns with the run's threads, so its times are partly theirs and vary from one minute to the
    next. Every finding about time is marked as doubtful for that reason. Wait until the machine is free, or
    move one of the programs, and measure again.
    """

    family = Family.HOST
    kind = Kind.RISK
    on_traces = "CPU time of other processes: a trace does not hold it"
    threshold = f"more than {OTHER_CPUS} CPUs used by processes that are not of this run (set by experiment)"
    explains = ("thread_collapse", "unstable_steps")
    timed = False

    def check(self, profile: Profile) -> Finding:
        host, run, allowed = profile.host, profile.run, profile.machine.cpus_allowed
        if host is None or host.other_cpus is None:
            return self.not_applicable("CPU time of other processes", "no steps were watched")
        title = f"{host.other_cpus:.2f} CPUs are used by other processes, {allowed} are allowed to this run"
        if host.other_cpus <= OTHER_CPUS:
            return self.passed(title)
        threads = (run.num_threads if run is not None else allowed) * len(profile.ranks or (0,))
        room = threads + host.other_cpus <= allowed
        return self.diagnostic(
            title,
            advice="Measure again when the machine is free: `ps -eo pid,pcpu,args --sort=-pcpu | head` shows "
            "who uses it.",
            severity=Severity.LOW if room else Severity.MEDIUM,
            evidence={"other_cpus": round(host.other_cpus, 2), "cpus_allowed": allowed},
        )
