from builders import a_machine, a_served_profile

from advisor.advice.finding import Finding, Kind, Severity, State
from advisor.profiles.facts.served import SessionFacts
from advisor.rules.runtime_threads import RuntimeThreads

IN_CONTAINER = a_machine(cpus_allowed=2, physical_cores=16)


def check(*threads: int) -> Finding:
    sessions = tuple(SessionFacts(each, spinning=True) for each in threads)
    return RuntimeThreads().check(a_served_profile(IN_CONTAINER, sessions=sessions))


def test_a_session_with_more_threads_than_cpus_is_a_risk() -> None:
    finding = check(2, 8)
    assert (finding.state, finding.kind, finding.severity) == (State.DIAGNOSTIC, Kind.RISK, Severity.MEDIUM)
    assert finding.title == "8 threads of a session, 2 CPUs are allowed"
    assert "intra_op_num_threads = 2" in finding.advice


def test_the_default_is_one_thread_for_each_core_of_the_machine() -> None:
    assert check(0).evidence == {"threads": 16, "cpus_allowed": 2}


def test_as_many_threads_as_cpus_pass() -> None:
    assert check(2, 1).state is State.PASSED


def test_without_a_session_nothing_is_judged() -> None:
    assert check().state is State.NOT_APPLICABLE
