"""Times of small pieces of a request, side by side."""

import time
from collections.abc import Callable

TURNS = 5
LONG_S = 0.5  # of a piece, which is then timed once


def fastest_s(*works: Callable[[], object]) -> list[float]:
    """Seconds of the fastest of a few turns of each; the first run of each does not count."""
    times: list[list[float]] = [[] for _ in works]
    for work in works:
        work()
    for _ in range(TURNS):
        for spent, work in zip(times, works, strict=True):
            began = time.perf_counter()
            work()
            spent.append(time.perf_counter() - began)
        if max(spent[-1] for spent in times) > LONG_S:
            break
    return [min(spent) for spent in times]
