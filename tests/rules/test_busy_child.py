from typing import Any

from builders import a_loader, a_machine, a_profile

from advisor.advice.finding import Finding, State
from advisor.profiles.facts.observed import HostFacts
from advisor.profiles.facts.profile import RunFacts
from advisor.rules.busy_child import BusyChild


def check(*children: tuple[str, float], threads: int = 2, cpus: int = 2, **facts: Any) -> Finding:
    host = HostFacts(training_thread_cpus=0.9, children=children)
    run = RunFacts(num_threads=threads)
    return BusyChild().check(a_profile(a_machine(cpus_allowed=cpus), **{"host": host, "run": run, **facts}))


def test_a_process_of_the_program_that_takes_a_cpu_is_named() -> None:
    finding = check(("scorer", 1.0))
    assert finding.title == (
        "100 % of a CPU is used by processes that the program started (`scorer`), beside 2 for training, "
        "of 2 allowed"
    )
    assert finding.ceiling is not None and 0.2 < finding.ceiling.low < 1 / 3
    assert "`scorer` compute with fewer threads" in finding.advice


def test_where_there_are_cpus_for_all_nothing_is_said() -> None:
    assert check(("scorer", 1.0), cpus=4).state is State.PASSED
    assert check(("scorer", 1.0), threads=1).state is State.PASSED


def test_a_process_that_hardly_runs_passes_and_so_do_workers_of_a_loader() -> None:
    assert check(("writer", 0.1)).state is State.PASSED
    assert check(("pt_data_worker", 0.9), ("pt_data_worker", 0.9)).state is State.PASSED


def test_workers_that_an_older_torch_does_not_name_are_not_accused() -> None:
    loader = a_loader(num_workers=2, item_ms=0.1, collate_ms=0.1, cpu_share=1.0)
    assert check(("python3", 0.9), ("python3", 0.9), loader=loader).state is State.NOT_APPLICABLE
    assert check(("pt_data_worker", 0.2), ("scorer", 1.0), loader=loader).fired


def test_without_a_watched_run_nothing_is_known() -> None:
    assert check(host=None).state is State.NOT_APPLICABLE
