"""What recording an event costs, told apart from how much slower everything ran meanwhile.

While it is recorded, a part of a step takes ``slowdown * clean + cost * events``: recording has its price for
each event, and fills the caches that all operators use; other load comes and goes. Where the parts of a step
hold events in different densities, their times tell the two apart; elsewhere no slowdown is assumed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.profiles.facts.profile import StepPhases

TIMED = {"loader": "input_wait_ms", "backward": "backward_ms", "optimizer": "optimizer_ms"}
"""Phases of a trace that are also timed by the taps; the rest of a step is one part more."""

NOISE = 0.03  # of a step: by so much a part comes and goes by itself
EXPECTED = 0.25  # the slowdown lies so far from 1 if nothing is known (standard deviation)
LEAST = 0.5  # slowdown: the load around was another


@dataclass(frozen=True)
class EventCost:
    """Microseconds of an event, what all times are multiplied by beside it, and what neither explains.

    ``unexplained`` is a share of a clean step, that of the part that fits worst.
    """

    us: float = 0.0
    slowdown: float = 1.0
    unexplained: float = 0.0


@dataclass(frozen=True)
class Parts:
    """Mean parts of normal steps and of those of the window, both as the taps time them; shares count."""

    clean: StepPhases
    recorded: StepPhases


def event_cost(
    step_ms: float, clean_step_ms: float, events: Mapping[str, float], parts: Parts | None
) -> EventCost:
    """The cost of an event, so that the whole step comes out right.

    The slowdown is the least-squares solution over the parts, held towards 1 by ``EXPECTED`` (ridge).

    Args:
        step_ms: The usual recorded step.
        clean_step_ms: The usual step without the profiler.
        events: Per step, by phase of the trace.
        parts: Without them there is no slowdown.
    """
    total = sum(events.values())
    if total <= 0:
        return EventCost()
    if parts is None:
        return EventCost(1000 * max(0.0, step_ms - clean_step_ms) / total)
    ratio = step_ms / clean_step_ms
    shares = _shares(parts, {phase: count / total for phase, count in events.items()})
    pairs = [(clean - density, ratio * (recorded - density)) for clean, recorded, density in shares]
    weight = (NOISE / EXPECTED) ** 2
    slowdown = (weight + sum(x * y for x, y in pairs)) / (weight + sum(x * x for x, _ in pairs))
    slowdown = min(ratio, max(LEAST, slowdown))
    return EventCost(
        1000 * max(0.0, step_ms - slowdown * clean_step_ms) / total,
        slowdown,
        max(abs(y - slowdown * x) for x, y in pairs),
    )


def _shares(parts: Parts, densities: Mapping[str, float]) -> list[tuple[float, float, float]]:
    """Of the clean step, of the recorded one and of the events: for each part that is known of both."""
    shares = []
    for phase, name in TIMED.items():
        clean = getattr(parts.clean, name) / parts.clean.step_ms
        recorded = getattr(parts.recorded, name) / parts.recorded.step_ms
        if clean > 0 and recorded > 0:
            shares.append((clean, recorded, densities.get(phase, 0.0)))
    rest = [1 - sum(each[at] for each in shares) for at in range(3)]
    return [*shares, (rest[0], rest[1], rest[2])]
