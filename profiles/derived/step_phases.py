"""The mean parts of a step, from the nanoseconds that taps count."""

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.profiles.facts.profile import StepPhases

PHASES = (
    "input_wait", "transfer", "forward", "backward", "optimizer", "communication", "sync", "logging",
    "evaluation", "save",
)  # fmt: skip


def phases_of(wall_ns: Sequence[int], phases_ns: Mapping[str, int]) -> StepPhases:
    """Mean parts of a step from the nanoseconds of each step, and of each part in all of them."""
    steps = len(wall_ns)
    step_ms = sum(wall_ns) / steps / 1e6
    parts = {name: phases_ns.get(name, 0) / steps / 1e6 for name in PHASES}
    other = max(0.0, step_ms - sum(parts.values()))
    fields: dict[str, Any] = {f"{name}_ms": value for name, value in parts.items()}
    return StepPhases(step_ms=step_ms, steps=steps, other_ms=other, **fields)
