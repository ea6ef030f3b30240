"""What larger batches would give, measured beside the verdict: throughput only, never recommended by it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.measure import Estimate, within
from advisor.tuners.comparing.ways import BATON, WINDOWS
from advisor.tuners.knob import Value
from advisor.tuners.space.space import Space
from advisor.tuners.supervision.failures import RESOURCE_CAUSES, TrialFailed

QUADS = 3
LEVEL = 0.99
WORTH = math.log(1.02)  # a doubling that gives less than this ends the climb


@dataclass(frozen=True)
class Measured:
    """A batch size, and its throughput over that of the recommendation (log ratio)."""

    batch_size: int
    lr_scaling: str
    estimate: Estimate


def propose_batches(
    arena: Arena,
    space: Space,
    base: Mapping[str, Value],
    deadline: float,
    say: Callable[[str], None],
    startup_s: float = 0.0,
) -> list[Measured]:
    """Climb through larger batches while each gives more samples per second and time is left.

    Args:
        arena: Runs the comparisons.
        space: Holds ``batch_size`` and ``lr_scaling``; without them nothing is measured.
        base: The configuration to start from.
        deadline: Monotonic time at which to stop.
        say: Is told what is measured.
        startup_s: From starting the program to its first step.
    """
    measured: list[Measured] = []
    present = space.present.get("batch_size")
    if present is None or not isinstance(present, int):
        return measured
    best = 0.0
    cost_s = None
    for value in sorted(v for v in space.choices["batch_size"] if isinstance(v, int) and v > present):
        began = arena.clock()
        rule = str(space.complete({"batch_size": value}).get("lr_scaling", "none"))
        config = {**base, "batch_size": value, "lr_scaling": rule}
        start = {**base, "batch_size": present, "lr_scaling": "none"}
        if space.check({name: config[name] for name in space.present}) is not None:
            break
        cost_s = _expected_s(arena, start, config, startup_s) if cost_s is None else 2 * cost_s
        if began + cost_s > deadline:
            break
        say(f"measuring batch size {value}, for a proposal")
        try:
            estimate = _compare(arena, start, config)
        except TrialFailed as failed:
            if failed.failure.cause in RESOURCE_CAUSES:
                break
            return measured
        cost_s = arena.clock() - began
        measured.append(Measured(value, rule, estimate))
        if estimate.estimate < best + WORTH:
            break
        best = estimate.estimate
    return measured


def _expected_s(
    arena: Arena, start: Mapping[str, Value], config: Mapping[str, Value], startup_s: float
) -> float:
    """Seconds of the two duels of one batch, each step as long as one of the baseline."""
    how = arena.how(start, config, fresh=True)
    if how == WINDOWS:
        steps = sum(arena.window_steps(start)) + sum(arena.window_steps(config))
        return 2 * (2 * startup_s + steps * arena.step_s)
    starts = 2 if how == BATON and not arena.at_once else 1
    return 2 * (starts * startup_s + QUADS * arena.quad_s)


def _compare(arena: Arena, start: Mapping[str, Value], config: Mapping[str, Value]) -> Estimate:
    how = arena.how(start, config, fresh=True)
    ratios: list[float] = []
    for swapped in (False, True):
        ratios += arena.duel(start, config, how=how, quads=QUADS, swapped=swapped).log_ratios
    return replace(within(ratios, LEVEL), instances=2)
