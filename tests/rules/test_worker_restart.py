from typing import Any

import pytest
from builders import a_loader, a_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.profile import LoaderFacts
from advisor.rules.worker_restart import WorkerRestart


def a_restarting_loader(**facts: Any) -> LoaderFacts:
    """Two workers that take 120 ms to start, in epochs of one second."""
    defaults = {"num_workers": 2, "epochs_started": 3, "worker_start_ms": 120.0, "epoch_wall_s": 1.0}
    return a_loader(**{**defaults, **facts})


def check(loader: LoaderFacts) -> Finding:
    return WorkerRestart().check(a_profile(phases_ms={"input_wait": 1.0}, loader=loader))


def test_workers_that_start_anew_in_short_epochs_are_to_be_kept() -> None:
    finding = check(a_restarting_loader())
    assert finding.title == "12 % of each epoch starts 2 workers (120 ms)"
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.12)
    assert finding.ceiling.of == "run"
    assert finding.severity is Severity.MEDIUM
    assert "persistent_workers=True" in finding.advice and "memory" in finding.advice


def test_the_ceiling_includes_the_step_that_starting_workers_slow_down() -> None:
    plain, slowed = check(a_restarting_loader()), check(a_restarting_loader(first_step_ms=180.0))
    assert plain.ceiling is not None and slowed.ceiling is not None
    assert slowed.ceiling.share == pytest.approx(0.30)
    assert slowed.ceiling.low == plain.ceiling.low and slowed.severity is plain.severity
    assert slowed.title == plain.title
    assert check(a_restarting_loader(first_step_ms=-5.0)).ceiling == plain.ceiling


def test_a_short_start_passes_with_the_number() -> None:
    finding = check(a_restarting_loader(worker_start_ms=29.0))
    assert finding.state is State.PASSED
    assert finding.title == "2.9 % of each epoch starts 2 workers (29 ms)"


def test_the_first_batch_is_no_part_of_starting() -> None:
    finding = check(
        a_restarting_loader(item_ms=3.0, collate_ms=5.0)
    )  # 101 ms, of which 1 ms is the usual wait
    assert finding.state is State.PASSED
    assert finding.title.startswith("2.0 %")


@pytest.mark.parametrize("facts", [{"num_workers": 0}, {"persistent_workers": True}])
def test_without_workers_or_with_kept_ones_it_passes(facts: dict[str, Any]) -> None:
    assert check(a_restarting_loader(**facts)).state is State.PASSED


@pytest.mark.parametrize(
    ("facts", "missing"),
    [
        ({"constructed": 3}, "one loader for all epochs"),
        ({"epochs_started": 1}, "a second epoch"),
        ({"worker_start_ms": None}, "time of starting workers"),
        ({"epoch_wall_s": None}, "time of starting workers"),
    ],
)
def test_missing_facts_are_named(facts: dict[str, Any], missing: str) -> None:
    finding = check(a_restarting_loader(**facts))
    assert finding.state is State.NOT_APPLICABLE and finding.title.startswith(missing)


def test_what_the_sampler_draws_first_is_no_start_of_workers() -> None:
    finding = check(a_restarting_loader(first_draw_ms=100.0))
    assert finding.title == "2.0 % of each epoch starts 2 workers (20 ms)"
    assert finding.state is State.PASSED
