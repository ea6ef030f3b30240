from typing import Any

import pytest
from builders import a_loader, a_machine, a_profile

from advisor.advice.finding import Finding, Kind, Severity, State
from advisor.profiles.facts.machine import Machine
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import LoaderFacts
from advisor.rules.loader_recreated import LoaderRecreated


def a_recreated_loader(**facts: Any) -> LoaderFacts:
    """Five loaders of one line, one for each epoch of a second."""
    defaults = {"constructed": 5, "epochs_started": 5, "construct_ms": 0.5, "epoch_wall_s": 1.0}
    return a_loader(**{**defaults, **facts})


def check(loader: LoaderFacts, machine: Machine | None = None) -> Finding:
    return LoaderRecreated().check(a_profile(machine, phases_ms={}, loader=loader))


def test_starting_workers_of_a_new_loader_for_each_epoch_is_reported_at_its_line() -> None:
    place = Location("train.py", 30)
    finding = check(a_recreated_loader(num_workers=2, worker_start_ms=109.5, location=place))
    assert finding.title == "11 % of each epoch builds a new loader (110 ms)"
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.11)
    assert finding.ceiling.of == "run"
    assert finding.severity is Severity.LOW
    assert finding.location == place
    assert "once" in finding.advice and "persistent_workers=True" in finding.advice


def test_its_ceiling_includes_the_step_that_starting_workers_slow_down() -> None:
    facts = {"num_workers": 2, "worker_start_ms": 109.5, "first_step_ms": 90.0}
    slowed, alone = (
        check(a_recreated_loader(**facts)),
        check(a_recreated_loader(**{**facts, "num_workers": 0})),
    )
    assert slowed.ceiling is not None and slowed.ceiling.share == pytest.approx(0.2)
    assert slowed.severity is Severity.LOW
    assert alone.ceiling is None or alone.ceiling.share < 0.01


def test_a_loader_that_is_expensive_to_construct_counts_without_workers() -> None:
    finding = check(a_recreated_loader(construct_ms=300.0))
    assert finding.severity is Severity.HIGH
    assert finding.advice == "Build the DataLoader once, before the loop over epochs."


def test_a_loader_that_is_cheap_to_build_passes() -> None:
    finding = check(a_recreated_loader())
    assert finding.state is State.PASSED and finding.title.startswith("0.1 %")


def test_one_loader_for_all_epochs_passes() -> None:
    assert check(a_recreated_loader(constructed=1)).title == "1 loader serves all epochs"


def test_pinning_with_persistent_workers_runs_out_of_files() -> None:
    loader = a_recreated_loader(num_workers=2, persistent_workers=True, pin_memory=True, worker_start_ms=1.0)
    finding = check(loader, a_machine(cuda=True))
    assert (finding.state, finding.kind) == (State.DIAGNOSTIC, Kind.RISK)
    assert finding.severity is Severity.MEDIUM
    assert check(loader).state is State.PASSED  # without a GPU nothing is pinned


@pytest.mark.parametrize(
    ("facts", "missing"),
    [
        ({"epochs_started": 0}, "a complete epoch"),
        ({"construct_ms": None}, "time of constructing a loader"),
        ({"num_workers": 2}, "time of starting workers"),
    ],
)
def test_missing_facts_are_named(facts: dict[str, Any], missing: str) -> None:
    finding = check(a_recreated_loader(**facts))
    assert finding.state is State.NOT_APPLICABLE and finding.title.startswith(missing)
