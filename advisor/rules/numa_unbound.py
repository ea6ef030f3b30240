"""A process computes on several memory nodes without being bound to one."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile


class NumaUnbound(Rule):
    """Each socket of a large machine has memory of its own, and reading the other's is slower.

    The system moves threads of an unbound process between sockets, so part of their reads crosses over.
    Run one process per memory node and bind it: `numactl --cpunodebind=0 --membind=0 python train.py`.
    A process whose threads fit on one node is left alone: the system keeps it there most of the time.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "memory nodes and bindings of the machine: a trace does not hold them"
    threshold = (
        "more than one NUMA node, the process not bound to one (PyTorch tuning guide), and ranks or threads "
        "for more than one node (set by experiment)"
    )
    knobs = ("cpu_affinity", "ddp")

    def check(self, profile: Profile) -> Finding:
        nodes, run, host = profile.machine.numa_nodes, profile.run, profile.host
        if nodes is None:
            return self.not_applicable("memory nodes of the machine", "needs Linux")
        if nodes < 2:
            return self.passed(f"{nodes} memory node: nothing to bind to")
        ranks = len(profile.ranks) if profile.ranks else 1
        if profile.device != "cpu" and ranks == 1:
            return self.not_applicable("threads that compute", f"the model runs on {profile.device}")
        if host is None or host.bound_to_node is None or run is None:
            return self.not_applicable("CPUs that the process may use", "no steps were watched")
        if host.bound_to_node:
            return self.passed(f"1 of {nodes} memory nodes: the process is bound to it")
        cpus = profile.machine.cpus_allowed / nodes
        if ranks == 1 and run.num_threads <= cpus:
            return self.passed(f"{run.num_threads} threads fit on one of {nodes} memory nodes")
        bind = "`numactl --cpunodebind=0 --membind=0 python ...`"
        return self.diagnostic(
            f"{nodes} memory nodes, and the process is bound to none",
            advice=f"Bind each rank to one node: start it under {bind}, with the node of its rank."
            if ranks > 1
            else f"Bind the process to one node: start it under {bind}, with at most {int(cpus)} threads.",
            # One process with all CPUs may lose more CPUs by binding than it gains: only a trial can tell.
            severity=Severity.MEDIUM if ranks > 1 else Severity.LOW,
            evidence={"numa_nodes": nodes, "ranks": ranks, "num_threads": run.num_threads},
        )
