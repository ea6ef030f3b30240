"""Another Python thread of the program takes turns with the one that trains."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

BUSY = 0.25  # of the CPU time of all Python threads, by others than the one that trains; set by experiment
LEAST = 0.1  # CPUs of those others; set by experiment
ONE = 1.2  # CPUs of all Python threads together, up to which they take turns (by experiment)
NEEDED = 0.5  # relative error of the ceiling: part of their time passes while the training waits anyway
IDLE = 0.15  # of the wall time that the training thread does neither compute nor wait for its loader


class BusyThread(Rule):
    """Of all threads that run Python code one runs at a time: the lock of the interpreter allows no more.

    A thread that prepares batches, computes metrics or compresses logs in Python takes time from the training
    thread, which prepares and starts every operator in Python as well, or waits for what that thread makes.
    Do such work in a process: loader workers (`num_workers`), `multiprocessing`, or functions that release
    the lock for long, as large operators of numpy and torch do. Threads that wait for files or sockets cost
    nothing. The ceiling is all the time of those threads.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "CPU time of each thread: a trace does not hold it"
    threshold = "a quarter of the CPU time of Python threads by others, all together one CPU (by experiment)"
    explains = ("unattributed_time", "hot_line", "unstable_steps")

    def check(self, profile: Profile) -> Finding:
        host, phases = profile.host, profile.phases
        if host is None or host.training_thread_cpus is None:
            return self.not_applicable("CPU time of each thread", "no steps were watched")
        others = sum(cpus for _, cpus in host.threads)
        said = f"{percent(others)} of a CPU is used by other Python threads of the program"
        own = host.training_thread_cpus
        waits = phases.share("input_wait") if phases is not None else 0.0
        if others < max(LEAST, BUSY * (others + own)) or others + own > ONE or own + waits > 1 - IDLE:
            return self.passed(said)
        names = ", ".join(f"`{name}`" for name, _ in host.threads[:3])
        return self.opportunity(
            f"{said} ({names}), {percent(own)} by the one that trains: they take turns",
            self.timeline(others, NEEDED),
            advice="Move what that thread does into processes: loader workers, or `multiprocessing`.",
            evidence={
                "threads": dict(host.threads),
                "training_thread_cpus": own,
                "children": len(host.children),
                "cpus_of_children": round(sum(cpus for _, cpus in host.children), 2),
            },
        )
