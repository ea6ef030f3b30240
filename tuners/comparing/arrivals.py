"""What requests wait where others arrive before they are answered, from measured times of answering.

A closed loop asks again once it was answered: nobody ever waits in it. Here requests arrive at random (a
Poisson process), are answered one at a time in their order, and the time of each counts from its arrival.
The queue is computed, not run (Lindley's recursion), which takes from one answer to the next request that
waits no time: a server of threads, a framework and a network come on top. Times of answering are those that
were measured, drawn at random in stretches of slots that follow each other, so that what is slow for longer
than a slot (another program, a clock held down) makes a queue grow for as long. Where several samples are
answered in one call, up to so many that wait are taken together, in the time of a full call also where they
are fewer.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from advisor.tuners.comparing.percentiles import ALPHA, least_requests
from advisor.tuners.trial.messages import Slot

if TYPE_CHECKING:
    from numpy import ndarray

    Array = ndarray[Any, Any]

LOADS = (0.5, 0.7, 0.9)  # of what the program as it is answers (inference.md, section 5)
SHARES = (0.99, 0.9)  # of requests; the first that so many requests can show
STREAMS = 100  # that are drawn for one figure
REQUESTS = 10_000  # of a stream
STRETCHES = 4  # at least, of which a stream is made: each is as long as that leaves it
FILLING = 0.2  # of a stream: the queue is empty as it begins
HIGHEST = 0.99  # load; above it a queue takes longer to settle than a stream lasts
HALVINGS = 7  # in the search of the highest rate: to one part in a hundred
FEWER = 4  # times, streams for each of its steps


@dataclass(frozen=True)
class UnderLoad:
    """What a share of the requests waits at most, answering included, where they arrive at some rate.

    Attributes:
        load: Share (0 to 1) of the capacity of the program as it is.
        per_s: Arrivals a second.
        time_s: The percentile; ``None`` where fewer are answered than arrive.
        at_most_s: Its upper bound, one-sided at 99 %.
    """

    load: float
    per_s: float
    time_s: float | None
    at_most_s: float | None

    def within(self, limit_s: float) -> bool:
        """Whether the bound keeps a limit."""
        return self.at_most_s is not None and self.at_most_s <= limit_s


@dataclass(frozen=True)
class Arrivals:
    """One program under several loads.

    Attributes:
        share: Of requests (0.99 or 0.9) of which a time is told.
        loads: From the lowest.
        most_per_s: Highest rate at which the limit is kept; 0 where none is.
    """

    share: float
    loads: tuple[UnderLoad, ...]
    most_per_s: float

    @property
    def percentile(self) -> str:
        """``p99``."""
        return f"p{100 * self.share:.0f}"


def capacity(slots: Sequence[Slot], together: int = 1) -> float:
    """Requests a second, one call of so many right after the other."""
    calls, seconds = sum(len(slot.step_s) for slot in slots), sum(sum(slot.step_s) for slot in slots)
    return together * calls / seconds


def shown_share(requests: int) -> float | None:
    """The largest of ``SHARES`` that so many requests can show; ``None`` for too few."""
    return next((share for share in SHARES if requests >= least_requests(share)), None)


def arriving(
    slots: Sequence[Slot], limit_s: float, share: float, per_s: float | None = None, together: int = 1
) -> Arrivals:
    """A program under ``LOADS``.

    Args:
        slots: Its times of answering.
        limit_s: What is asked for.
        share: Of requests, above 0 and below 1.
        per_s: Capacity of the program as it is; by default that of these slots.
        together: Requests that are answered in one call at most.
    """
    return _arriving(tuple(slots), limit_s, share, per_s, together)


@lru_cache(maxsize=4)  # the present beside itself, and again for each result that is kept on the way
def _arriving(
    slots: tuple[Slot, ...], limit_s: float, share: float, per_s: float | None, together: int
) -> Arrivals:
    streams = _Streams.drawn(slots, together)
    reference = per_s or streams.per_s
    loads = [
        UnderLoad(load, load * reference, *streams.times(load * reference, share, STREAMS)) for load in LOADS
    ]
    return Arrivals(share, tuple(loads), _most_per_s(streams, limit_s, share))


def response_times_together(
    service_s: Sequence[float], arrivals_s: Sequence[float], together: int
) -> "Array":
    """The same where those that wait are answered in one call, ``together`` at most.

    Args:
        service_s: What each call takes; as many as there are arrivals.
        arrivals_s: When each arrives, in order.
        together: At least 1.
    """
    import numpy

    ends_s: list[float] = []
    sizes: list[int] = []
    first, count, free = 0, len(arrivals_s), 0.0
    for seconds in service_s:
        if first == count:
            break
        arrived = arrivals_s[first]
        began = free if free > arrived else arrived
        last = bisect_right(arrivals_s, began, first, min(first + together, count))
        free = began + seconds
        ends_s.append(free)
        sizes.append(last - first)
        first = last
    times: Array = numpy.repeat(ends_s, sizes) - numpy.asarray(arrivals_s)[:first]
    return times


def response_times(service_s: "Array", gaps_s: "Array") -> "Array":
    """Seconds from its arrival to its answer of each request of a queue with one server.

    Args:
        service_s: What each takes to answer, along the last axis.
        gaps_s: Seconds from the arrival before to that of each; the first is not looked at.
    """
    import numpy

    moves = numpy.zeros_like(service_s)
    moves[..., 1:] = service_s[..., :-1] - gaps_s[..., 1:]
    path = numpy.cumsum(moves, axis=-1)
    waits: Array = path - numpy.minimum.accumulate(path, axis=-1)
    return waits + service_s


@dataclass(frozen=True)
class _Streams:
    """Times of answering and of waiting for the next arrival, the mean of these 1: a row is a stream."""

    service_s: "Array"
    gaps: "Array"
    per_s: float  # capacity
    together: int

    @classmethod
    def drawn(cls, slots: Sequence[Slot], together: int) -> "_Streams":
        """From as many slots as there are, drawn with replacement, over and over in random order.

        What is drawn are stretches of slots as they were measured, the first again after the last (a circular
        block bootstrap).
        """
        import numpy

        generator = numpy.random.default_rng(0)
        times = [numpy.asarray(slot.step_s) for slot in slots]
        length = max(1, len(times) // STRETCHES)
        stretches = [
            numpy.concatenate([times[(start + at) % len(times)] for at in range(length)])
            for start in range(len(times))
        ]

        def stream() -> "Array":
            drawn_from = generator.integers(0, len(stretches), math.ceil(len(stretches) / length))
            chosen = [stretches[start] for start in drawn_from]
            rounds = math.ceil(REQUESTS / sum(map(len, chosen)))
            parts = [chosen[place] for _ in range(rounds) for place in generator.permutation(len(chosen))]
            drawn: Array = numpy.concatenate(parts)[:REQUESTS]
            return drawn

        streams = STREAMS if together == 1 else STREAMS // FEWER
        service_s = numpy.stack([stream() for _ in range(streams)])
        gaps = generator.exponential(1.0, service_s.shape)
        return cls(service_s, gaps, capacity(slots, together), together)

    def times(self, per_s: float, share: float, streams: int) -> tuple[float | None, float | None]:
        """The percentile at a rate, and its upper bound; nothing of a queue that grows without end."""
        import numpy

        if per_s >= HIGHEST * self.per_s:
            return None, None
        service_s, gaps_s = self.service_s[:streams], self.gaps[:streams] / per_s
        if self.together == 1:
            answered = response_times(service_s, gaps_s)
        else:
            arrivals_s = numpy.cumsum(gaps_s, axis=1).tolist()
            answered = numpy.array(
                [
                    response_times_together(*stream, self.together)
                    for stream in zip(service_s.tolist(), arrivals_s, strict=True)
                ]
            )
        kept = answered[:, int(FILLING * REQUESTS) :]
        place = math.ceil(share * kept.shape[1]) - 1
        found = numpy.partition(kept, place, axis=1)[:, place]
        return float(numpy.median(found)), float(numpy.quantile(found, 1 - ALPHA))


def _most_per_s(streams: _Streams, limit_s: float, share: float) -> float:
    low, high = 0.0, HIGHEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        _, at_most_s = streams.times(middle * streams.per_s, share, STREAMS // FEWER)
        if at_most_s is not None and at_most_s <= limit_s:
            low = middle
        else:
            high = middle
    return low * streams.per_s
