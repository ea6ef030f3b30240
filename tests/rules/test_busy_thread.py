import pytest
from builders import a_loader, a_profile

from advisor.advice.advise import advise
from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import HostFacts
from advisor.rules.busy_thread import BusyThread
from advisor.rules.input_bound import InputBound


def check(own: float | None, *others: float, wait_ms: float = 0.0) -> Finding:
    threads = tuple((f"reader-{number}", cpus) for number, cpus in enumerate(others))
    host = HostFacts(training_thread_cpus=own, threads=threads, children=(("python", 0.5),))
    return BusyThread().check(a_profile(host=host, phases_ms={"input_wait": wait_ms, "forward": 5.0}))


def test_a_thread_that_takes_turns_with_the_training_is_named() -> None:
    finding = check(0.5, 0.48)
    assert (finding.state, finding.severity) == (State.OPPORTUNITY, Severity.HIGH)
    assert finding.ceiling is not None and finding.ceiling.low == pytest.approx(0.24)
    assert finding.title.startswith("48 % of a CPU") and "`reader-0`" in finding.title
    assert finding.evidence["cpus_of_children"] == 0.5


def test_a_thread_that_waits_costs_nothing() -> None:
    assert check(0.5, 0.05).state is State.PASSED


def test_threads_that_run_side_by_side_release_the_lock() -> None:
    assert check(0.8, 0.9).state is State.PASSED


def test_a_training_that_computes_all_the_time_or_waits_for_its_loader_loses_nothing() -> None:
    assert check(0.9, 0.28).state is State.PASSED
    assert check(0.4, 0.5, wait_ms=6.0).state is State.PASSED


def test_without_times_of_threads_nothing_is_said() -> None:
    assert check(None).state is State.NOT_APPLICABLE


def test_it_comes_before_a_wait_that_is_smaller() -> None:
    host = HostFacts(training_thread_cpus=0.5, threads=(("counting", 0.36),))
    profile = a_profile(
        host=host, loader=a_loader(num_workers=0), phases_ms={"input_wait": 0.8, "forward": 4.2}
    )
    rules = {"busy_thread": BusyThread(), "input_bound": InputBound()}
    assert [each.rule for each in advise(profile, rules) if each.fired] == ["busy_thread", "input_bound"]
