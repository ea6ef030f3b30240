from typing import Any

import pytest
from builders import a_gpu_profile, a_loader, a_machine, a_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import RankFacts
from advisor.profiles.facts.profile import LoaderFacts, Profile, RunFacts
from advisor.rules.too_many_workers import TooManyWorkers


def check(loader: LoaderFacts, threads: int = 2, **facts: Any) -> Finding:
    profile = a_profile(phases_ms={}, loader=loader, run=RunFacts(num_threads=threads), **facts)
    return TooManyWorkers().check(profile)  # on four CPUs


def a_busy_loader(workers: int, **facts: Any) -> LoaderFacts:
    return a_loader(**{"num_workers": workers, "item_ms": 5.0, "collate_ms": 0.0, "cpu_share": 1.0, **facts})


def test_workers_that_compute_on_cpus_that_are_taken_are_reported() -> None:
    finding = check(a_busy_loader(6))
    assert finding.title == "8.0 CPUs are asked for by training and workers, of 4 allowed"
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.MEDIUM)
    assert "num_workers=3)` in place of 6" in finding.advice


def test_one_cpu_beyond_those_allowed_passes() -> None:
    assert check(a_busy_loader(3)).state is State.PASSED
    assert check(a_busy_loader(4)).fired


def test_workers_that_wait_may_outnumber_the_cpus() -> None:
    assert check(a_busy_loader(12, cpu_share=0.2)).state is State.PASSED


def test_workers_that_are_idle_most_of_the_time_pass() -> None:
    assert check(a_busy_loader(8, item_ms=0.1), threads=4).state is State.PASSED


def test_more_than_four_workers_per_cpu_are_too_many_whatever_they_do() -> None:
    finding = check(a_busy_loader(17, cpu_share=0.1))
    assert finding.title == "17 workers share 4 CPUs"
    assert finding.severity is Severity.LOW
    assert "num_workers=16" in finding.advice
    unknown = check(a_loader(num_workers=17))
    assert unknown.severity is Severity.MEDIUM


def test_the_workers_of_all_ranks_share_the_cpus() -> None:
    ranks = (RankFacts(0, 10.0), RankFacts(1, 10.0))
    assert check(a_busy_loader(1), threads=1, ranks=ranks).state is State.PASSED
    finding = check(a_busy_loader(3), threads=1, ranks=ranks)
    assert finding.title.startswith("8.0 CPUs") and "num_workers=1)" in finding.advice


def test_threads_beyond_the_cpus_are_another_matter() -> None:
    assert check(a_busy_loader(1), threads=8).state is State.PASSED


def test_a_gpu_needs_one_thread_of_the_host() -> None:
    run = RunFacts(num_threads=4)
    profile = a_gpu_profile(a_machine(cuda=True), loader=a_busy_loader(4), run=run)
    assert TooManyWorkers().check(profile).state is State.PASSED


def test_without_workers_it_passes() -> None:
    assert check(a_loader()).title == "0 workers beside the training"


@pytest.mark.parametrize("profile", [Profile(a_machine()), a_profile(loader=a_loader(num_workers=2))])
def test_missing_facts_are_named(profile: Profile) -> None:
    assert TooManyWorkers().check(profile).state is State.NOT_APPLICABLE
