from builders import a_machine, a_profile

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.machine import Machine
from advisor.profiles.facts.observed import HostFacts, RankFacts
from advisor.profiles.facts.profile import RunFacts
from advisor.rules.numa_unbound import NumaUnbound

UNBOUND = HostFacts(bound_to_node=False)
RANKS = (RankFacts(0, 10.0), RankFacts(1, 10.0))


def two_sockets() -> Machine:
    return a_machine(cpus_allowed=64, numa_nodes=2)


def test_ranks_on_several_nodes_should_be_bound() -> None:
    profile = a_profile(two_sockets(), run=RunFacts(num_threads=16), host=UNBOUND, ranks=RANKS)
    finding = NumaUnbound().check(profile)
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.MEDIUM)
    assert finding.title == "2 memory nodes, and the process is bound to none"
    assert "numactl --cpunodebind=0 --membind=0" in finding.advice


def test_one_process_with_threads_for_both_nodes_is_told_as_a_small_thing() -> None:
    finding = NumaUnbound().check(a_profile(two_sockets(), run=RunFacts(num_threads=64), host=UNBOUND))
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.LOW)
    assert "at most 32 threads" in finding.advice


def test_threads_that_fit_on_one_node_are_left_alone() -> None:
    finding = NumaUnbound().check(a_profile(two_sockets(), run=RunFacts(num_threads=32), host=UNBOUND))
    assert finding.state is State.PASSED


def test_a_bound_process_is_right() -> None:
    host = HostFacts(bound_to_node=True)
    finding = NumaUnbound().check(a_profile(two_sockets(), run=RunFacts(num_threads=64), host=host))
    assert finding.state is State.PASSED


def test_one_node_has_nothing_to_bind_to() -> None:
    finding = NumaUnbound().check(a_profile(a_machine(numa_nodes=1), run=RunFacts(), host=UNBOUND))
    assert finding.state is State.PASSED


def test_a_single_process_on_a_gpu_is_not_judged() -> None:
    profile = a_profile(two_sockets(), device="cuda:0", run=RunFacts(num_threads=64), host=UNBOUND)
    assert NumaUnbound().check(profile).state is State.NOT_APPLICABLE


def test_unknown_nodes_or_binding_are_named() -> None:
    unknown = a_profile(two_sockets(), run=RunFacts(num_threads=64), host=HostFacts())
    assert NumaUnbound().check(unknown).state is State.NOT_APPLICABLE
