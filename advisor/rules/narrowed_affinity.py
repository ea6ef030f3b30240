"""The program binds itself to fewer CPUs than it was given."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile


class NarrowedAffinity(Rule):
    """A process may use the CPUs of its affinity; threads and loader workers that it starts inherit it.

    Some packages bind the process that imports them, by an OpenMP or BLAS runtime that pins its threads or by
    `os.sched_setaffinity`, and then everything shares one CPU, also what has nothing to do with the package.
    Undo it after the import: `os.sched_setaffinity(0, range(os.cpu_count()))`, or keep the runtime from it
    with `OMP_PROC_BIND=false` (`KMP_AFFINITY=disabled`, `GOMP_CPU_AFFINITY` unset). Numbers of threads and
    workers that fit the binding are right only while it lasts. Ranks that share a machine are bound on
    purpose.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "affinity of the process: a trace does not hold it"
    threshold = "fewer CPUs than when the process was started (by definition)"
    knobs = ("cpu_affinity",)
    explains = (
        "thread_oversubscription", "too_many_workers", "thread_collapse", "input_bound", "slow_item",
    )  # fmt: skip
    severity = Severity.HIGH
    timed = False

    def check(self, profile: Profile) -> Finding:
        host = profile.host
        if host is None or host.cpus_given is None or host.cpus_left is None:
            return self.not_applicable("affinity of the process", "it was not watched from its start")
        given, left = host.cpus_given, host.cpus_left
        if not is_narrowed(profile):
            return self.passed(f"{left} of {given} CPUs are left to the process")
        where = f"at {host.bound_at}" if host.bound_at is not None else "by something that it imports"
        return self.diagnostic(
            f"{left} of {given} CPUs are left to the process and its workers: it is bound {where}",
            advice=f"Undo the binding after it was made {where}: "
            "`os.sched_setaffinity(0, range(os.cpu_count()))`; then choose threads and workers.",
            location=host.bound_at,
            evidence={"cpus_given": given, "cpus_left": left},
        )


def is_narrowed(profile: Profile) -> bool:
    """Whether a program of one process uses fewer CPUs than it was given: by its own doing."""
    host = profile.host
    if host is None or host.cpus_given is None or host.cpus_left is None or profile.ranks is not None:
        return False
    return host.cpus_left < host.cpus_given
