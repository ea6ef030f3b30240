"""A process that the program started takes CPUs from its training."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.demand import cpu_use, rank_count
from advisor.profiles.facts.profile import Profile

BUSY = 0.25  # CPUs of those processes together; set by experiment
WORKER = "pt_data_worker"  # a loader's worker, which other rules judge (torch.utils.data._utils.worker)


class BusyChild(Rule):
    """The program itself runs something beside the training: an evaluation, a writer, a pool, a server.

    Processes do not wait for each other's interpreter, but they share the CPUs. Where threads that train,
    loader workers and such a process ask for more than there are, they take turns, and each operator waits
    for its slowest thread. Give that process one thread (`torch.set_num_threads(1)` in it) and the
    training those that are left, let it run less often or after the training, or bind it to a CPU that
    nobody else needs. The ceiling is the share by which more CPUs are asked for than there are.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "CPU time of other processes: a trace does not hold it"
    threshold = (
        f"{BUSY} CPUs of processes that the program started, no loader workers, where more CPUs are asked "
        "for than allowed (set by experiment)"
    )
    explains = ("unstable_steps", "thread_collapse", "thread_oversubscription")

    def check(self, profile: Profile) -> Finding:
        host, allowed = profile.host, profile.machine.cpus_allowed
        if host is None or host.training_thread_cpus is None:
            return self.not_applicable("CPU time of processes it started", "no steps were watched")
        workers = profile.loader.num_workers if profile.loader is not None else 0
        if workers and all(name != WORKER for name, _ in host.children):
            return self.not_applicable("processes beside workers", "this torch does not name its workers")
        others = [(name, cpus) for name, cpus in host.children if name != WORKER]
        taken = sum(cpus for _, cpus in others)
        said = f"{percent(taken)} of a CPU is used by processes that the program started"
        training = cpu_use(profile)
        if taken < BUSY or training is None:
            return self.passed(said)
        asked = training + taken
        if asked <= allowed or rank_count(profile) > 1:
            return self.passed(f"{said}; {asked:.2g} are asked for of {allowed}")
        name = others[0][0]
        return self.opportunity(
            f"{said} (`{name}`), beside {training:.2g} for training, of {allowed} allowed",
            self.modelled((asked - allowed) / asked),
            advice=f"Let `{name}` compute with fewer threads, less often, or after the training: "
            "`torch.set_num_threads(1)` in it leaves CPUs to this one.",
            evidence={
                "children": dict(others),
                "cpus_of_training": round(training, 2),
                "cpus_allowed": allowed,
            },
        )
