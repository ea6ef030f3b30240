"""What a run says that it could have seen is never less than its own intervals show."""

from types import SimpleNamespace
from typing import Any

import pytest

from advisor.stages.assemble import _detectable, _over_processes
from advisor.stages.baseline import Baseline
from advisor.stages.confirming.clock_ratios import steady_step_s
from advisor.stages.confirming.outcome import Outcome
from advisor.tuners.comparing.looks import Decision
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.trial.messages import Slot, SlotMeasured


def a_baseline(half: float, planned: float = 0.02) -> Any:
    slots = [Slot((0.010, 0.010)), Slot((0.011, 0.011)), Slot((0.010, 0.010))]
    return SimpleNamespace(aa=Estimate(0.0, -half, half, 0.99, 9, 1), detectable=planned, slots=slots)


def confirmed(half: float, instances: int = 6) -> Outcome:
    found = Estimate(0.1, 0.1 - half, 0.1 + half, 0.99, 30, instances)
    return Outcome(Configuration({}), verdict="change", decision=Decision("confirmed", found))


def test_without_a_confirmation_the_noise_bounds_what_could_have_been_seen() -> None:
    assert _detectable(a_baseline(0.08), Outcome(Configuration({}))) == pytest.approx(0.083, abs=1e-3)
    assert _detectable(a_baseline(0.001), Outcome(Configuration({}))) == 0.02
    assert _detectable(a_baseline(0.08), confirmed(0.5, instances=1)) == pytest.approx(0.083, abs=1e-3)


def test_a_confirmation_says_itself_what_it_could_have_seen_whatever_its_verdict() -> None:
    assert _detectable(a_baseline(0.08), confirmed(0.04)) == pytest.approx(0.041, abs=1e-3)
    assert _detectable(a_baseline(0.08), confirmed(0.0)) == 0.001


def test_a_step_over_processes_counts_the_first_one_and_those_of_the_confirmation() -> None:
    outcome = Outcome(Configuration({}), unchanged_ms=[10.2, 9.9])
    found = _over_processes(a_baseline(0.01), outcome, 0.99)
    assert found is not None and (found.processes, found.confidence) == (3, 0.99)
    assert found.low < 9.9 < found.estimate < 10.2 < found.high


def test_two_processes_do_not_tell_how_much_processes_differ() -> None:
    assert _over_processes(a_baseline(0.01), Outcome(Configuration({}), unchanged_ms=[10.2]), 0.99) is None


def test_steps_that_start_an_epoch_are_no_part_of_the_step_that_is_kept() -> None:
    window, wall_ns = [Slot((0.210, 0.010, 0.012))], (210_000_000, 10_000_000, 12_000_000)
    assert steady_step_s(window, SlotMeasured(wall_ns, kept=(0,))) == 0.011
    assert steady_step_s(window, SlotMeasured(wall_ns)) == window[0].mean_s
    assert steady_step_s([Slot((0.01,)), Slot((0.03,)), Slot((0.02,))], SlotMeasured()) == 0.02


def test_a_step_counts_those_of_every_kind() -> None:
    """Five updates of a discriminator, then one of a generator that takes six times as long."""
    slot = Slot((0.010, 0.010, 0.010, 0.010, 0.010, 0.060))
    assert Baseline.step_s.fget(SimpleNamespace(slots=[slot] * 3)) == pytest.approx(0.110 / 6)  # type: ignore[attr-defined]


def test_a_gain_below_what_processes_tell_leaves_one_figure() -> None:
    outcome = Outcome(Configuration({}), reason="less than that", tells=0.21)
    assert _detectable(a_baseline(0.01), outcome) == 0.21
