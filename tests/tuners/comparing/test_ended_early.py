"""What is said of a program that ends before one comparison of it is complete."""

from types import SimpleNamespace

import pytest

from advisor.base.unit import Unit
from advisor.tuners.comparing.ended_early import SLOTS, ended_early
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.trial.messages import TrialOutcome


@pytest.mark.parametrize(
    ("unit", "slots", "told"),
    [
        (Unit.REQUEST, SLOTS, "ended after 38 requests, before one comparison was complete, which takes 205"),
        (Unit.STEP, SLOTS // 2, "ended after 38 steps, before one comparison was complete, which takes 103"),
    ],
)
def test_it_says_how_far_it_came_and_how_far_it_has_to_come(unit: Unit, slots: int, told: str) -> None:
    arena = SimpleNamespace(unit=unit, steps=lambda: 50)
    failed = ended_early(arena, SessionEnded(TrialOutcome("ended", steps=38)), slots)  # type: ignore[arg-type]
    assert failed.failure.cause == "user_error" and told in failed.failure.message
