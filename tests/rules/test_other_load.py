from builders import a_profile

from advisor.advice.finding import Finding, Kind, Severity, State
from advisor.profiles.facts.observed import HostFacts
from advisor.profiles.facts.profile import RunFacts
from advisor.rules.other_load import OtherLoad


def check(other_cpus: float | None, threads: int = 4) -> Finding:
    host = HostFacts(other_cpus=other_cpus)
    return OtherLoad().check(a_profile(run=RunFacts(num_threads=threads), host=host))


def test_load_that_takes_cpus_from_the_run_is_reported() -> None:
    finding = check(0.8)
    assert finding.title == "0.80 CPUs are used by other processes, 4 are allowed to this run"
    assert (finding.state, finding.severity, finding.kind) == (State.DIAGNOSTIC, Severity.MEDIUM, Kind.RISK)


def test_load_on_cpus_that_the_run_leaves_free_is_a_small_thing() -> None:
    assert check(0.8, threads=1).severity is Severity.LOW


def test_a_quiet_machine_passes_with_its_number() -> None:
    finding = check(0.15)
    assert finding.state is State.PASSED and finding.title.startswith("0.15 CPUs")


def test_without_times_of_other_processes_nothing_is_said() -> None:
    assert check(None).state is State.NOT_APPLICABLE
