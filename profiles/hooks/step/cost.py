"""What watching costs: the taps timed on this machine, times how often a step meets them."""

from functools import cache
from time import perf_counter_ns

from advisor.profiles.hooks.step.clock import Clock

ROUNDS = 2000
WRAPPER = 18.0  # all around a phase costs that many times its two readings of the clock; by experiment


def watching_s(phases_per_step: float) -> float:
    """Seconds that watching adds to a step in which so many phases begin.

    Each phase is a wrapper around a call of the program's, and each step ends with a tick. The factor for
    the wrapper is a fit to 20 to 25 us a step in tight loops; ``benchmarks/overhead.py`` measures it.
    """
    pair_s, tick_s = _costs()
    return tick_s + phases_per_step * WRAPPER * pair_s


@cache
def _costs() -> tuple[float, float]:
    """Seconds of entering and leaving a phase, and of closing a step."""
    clock = Clock(lambda step: None)
    began = perf_counter_ns()
    for _ in range(ROUNDS):
        clock.push("forward")
        clock.pop()
    middle = perf_counter_ns()
    for _ in range(ROUNDS):
        clock.backward_done()
    ended = perf_counter_ns()
    return (middle - began) / ROUNDS / 1e9, (ended - middle) / ROUNDS / 1e9
