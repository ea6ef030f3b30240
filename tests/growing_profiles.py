"""Profiles in which something grows, written as what was read of it."""

from collections.abc import Callable, Sequence
from typing import Any

from builders import a_profile

from advisor.profiles.facts.growing import GrowingVariable, Growth, Readings
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile, StepPhases

STEPS = tuple(range(20, 500, 15))


def read(kind: str, value: Callable[[int], float], limit: float | None = None) -> Readings:
    """What ``kind`` was at each of ``STEPS``."""
    return Readings(kind, STEPS, tuple(value(step) for step in STEPS), limit)


def a_growing_profile(
    *readings: Readings,
    variables: Sequence[GrowingVariable] = (),
    hooks_location: Location | None = None,
    **facts: Any,
) -> Profile:
    """Steps of 10 ms in a run of which nothing but its growth is known."""
    growth = Growth(readings, tuple(variables), hooks_location)
    phases = StepPhases(step_ms=10.0, forward_ms=8.0, steps=400)
    return a_profile(**{"growth": growth, "phases": phases, **facts})
