import pytest

from advisor.profiles.facts.profile import StepPhases
from advisor.profiles.traces.event_cost import EXPECTED, LEAST, EventCost, Parts, event_cost

EVENTS = {"forward": 4000.0, "backward": 100.0, "optimizer": 50.0, "other": 20.0, "loader": 0.0}


def _phases(step: float, backward: float, optimizer: float, wait: float = 0.0) -> StepPhases:
    return StepPhases(step, input_wait_ms=wait, backward_ms=backward, optimizer_ms=optimizer)


def _recorded(clean: StepPhases, slowdown: float, us: float) -> StepPhases:
    cost = {phase: count * us / 1000 for phase, count in EVENTS.items()}
    return _phases(
        slowdown * clean.step_ms + sum(cost.values()),
        slowdown * clean.backward_ms + cost["backward"],
        slowdown * clean.optimizer_ms + cost["optimizer"],
        slowdown * clean.input_wait_ms + cost["loader"],
    )


def _of(clean: StepPhases, recorded: StepPhases) -> EventCost:
    return event_cost(recorded.step_ms, clean.step_ms, EVENTS, Parts(clean, recorded))


@pytest.mark.parametrize(("slowdown", "us"), [(1.0, 0.4), (1.5, 0.2), (1.9, 0.35), (0.9, 0.3)])
def test_the_cost_of_an_event_and_a_slowdown_are_told_apart(slowdown: float, us: float) -> None:
    clean = _phases(3.0, 0.6, 0.3, 0.5)
    found = _of(clean, _recorded(clean, slowdown, us))
    assert found.us == pytest.approx(us, abs=0.07)
    assert found.slowdown == pytest.approx(slowdown, rel=0.06)
    assert found.unexplained < 0.03


def test_the_whole_step_comes_out_right() -> None:
    clean, recorded = _phases(3.0, 0.6, 0.3), _phases(5.5, 0.7, 0.6)
    found = _of(clean, recorded)
    explained = found.slowdown * clean.step_ms + found.us / 1000 * sum(EVENTS.values())
    assert explained == pytest.approx(recorded.step_ms)
    assert found.unexplained > 0.03


def test_only_shares_of_the_parts_count() -> None:
    clean, recorded = _phases(3.0, 0.6, 0.3), _recorded(_phases(3.0, 0.6, 0.3), 1.4, 0.3)
    later = _phases(30.0, 6.0, 3.0)
    found = event_cost(recorded.step_ms, clean.step_ms, EVENTS, Parts(later, recorded))
    assert found == _of(clean, recorded)


def test_without_the_parts_all_that_is_longer_is_the_cost_of_events() -> None:
    assert event_cost(5.0, 3.0, {"forward": 1000.0}, None) == EventCost(us=2.0)
    assert event_cost(2.5, 3.0, {"forward": 1000.0}, None) == EventCost(us=0.0)


def test_parts_as_dense_as_each_other_tell_nothing() -> None:
    clean, recorded = _phases(3.0, 1.0, 1.0), _phases(4.5, 1.51, 1.49)
    even = {"forward": 100.0, "backward": 100.0, "optimizer": 100.0}
    found = event_cost(recorded.step_ms, clean.step_ms, even, Parts(clean, recorded))
    assert found.slowdown == pytest.approx(1.0, abs=0.1)
    assert found.us == pytest.approx(5.0, rel=0.25)


def test_what_comes_and_goes_by_itself_weighs_little() -> None:
    """A part that holds no more of the step than noise cannot say how much slower it was."""
    clean, recorded = _phases(3.0, 0.0, 0.03), _phases(3.3, 0.0, 0.06)
    found = event_cost(
        recorded.step_ms, clean.step_ms, {"forward": 100.0, "optimizer": 2.0}, Parts(clean, recorded)
    )
    assert found.slowdown < 1 + 0.4 * EXPECTED


def test_a_window_in_a_quieter_moment_is_not_scaled_beyond_reason() -> None:
    clean = _phases(3.0, 0.9, 0.6)
    assert _of(clean, _recorded(clean, 0.2, 0.3)).slowdown >= LEAST
    fast = _of(clean, _phases(0.9, 0.27, 0.18))
    assert fast.us == pytest.approx(0.0, abs=1e-9)
    assert fast.slowdown == pytest.approx(0.3)


def test_a_part_that_the_taps_do_not_see_belongs_to_the_rest() -> None:
    """A backward by ``torch.autograd.grad`` is in the trace and in no part of the step."""
    clean = _phases(3.0, 0.0, 0.3)
    recorded = _phases(1.5 * 3.0 + 4.17 * 0.3, 0.0, 1.5 * 0.3 + 0.05 * 0.3)
    found = _of(clean, recorded)
    assert 1.0 < found.slowdown < 1.5
    assert found.us > 0.3


def test_a_step_without_events_costs_nothing() -> None:
    assert event_cost(5.0, 3.0, {}, None) == EventCost()
