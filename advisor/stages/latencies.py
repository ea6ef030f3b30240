"""Times of requests as the result tells them."""

from collections.abc import Sequence

from advisor.result.latency import Latency, SlowRequests, UnderLimit, UnderLoad
from advisor.stages.confirming.request_tails import RequestTails, side_by_side
from advisor.tuners.comparing.arrivals import Arrivals
from advisor.tuners.comparing.measure import median
from advisor.tuners.comparing.percentiles import least_requests, percentile
from advisor.tuners.trial.messages import Slot


def latency(slots: Sequence[Slot], startups_s: Sequence[float]) -> Latency | None:
    """Percentiles over all slots; ``None`` without any.

    Args:
        slots: Of one setting.
        startups_s: Of its processes.
    """
    times = [time for slot in slots for time in slot.step_s]
    return of_times(times, sum(slot.work * len(slot.step_s) for slot in slots), startups_s)


def of_times(times: Sequence[float], work: float, startups_s: Sequence[float]) -> Latency | None:
    """Percentiles of times in seconds; ``None`` without any. ``work`` is how much was answered in them."""
    if not times:
        return None
    return Latency(
        requests=len(times),
        p50_ms=1e3 * percentile(times, 0.5),
        p90_ms=1e3 * percentile(times, 0.9),
        p99_ms=1e3 * percentile(times, 0.99) if len(times) >= least_requests(0.99) else None,
        requests_per_s=work / sum(times),
        cold_start_s=median(startups_s) if startups_s else None,
    )


def with_limit(
    before: Latency | None, after: Latency | None, slots: Sequence[Slot], tails: RequestTails | None,
    limit_s: float | None, together: int = 1,
) -> tuple[Latency | None, Latency | None]:  # fmt: skip
    """Both beside a limit, at the same arrivals; as they are where there is none, or too few requests.

    Args:
        before: Of the program as it is.
        after: Of the candidate that was confirmed last, if there was one.
        slots: Of the program as it is, where no candidate was confirmed.
        tails: Of the confirmation.
        limit_s: That was asked for.
        together: Samples that the program as it is answers in one call.
    """
    if limit_s is None or before is None:
        return before, after
    if tails is not None and tails.first:
        found = tails.arrivals()
    else:
        found = side_by_side(slots, slots, limit_s, (together, together))
    if found is None:
        return before, after
    of_before, of_after = (_under_limit(each, limit_s) for each in found)
    return (
        before.model_copy(update={"under_limit": of_before}),
        None if after is None else after.model_copy(update={"under_limit": of_after}),
    )


def _under_limit(found: Arrivals, limit_s: float) -> UnderLimit:
    return UnderLimit(
        limit_ms=1e3 * limit_s,
        percentile=round(100 * found.share),
        loads=[
            UnderLoad(
                load=each.load,
                requests_per_s=each.per_s,
                time_ms=None if each.time_s is None else 1e3 * each.time_s,
                at_most_ms=None if each.at_most_s is None else 1e3 * each.at_most_s,
                within_limit=each.within(limit_s),
            )
            for each in found.loads
        ],
        most_per_s=found.most_per_s,
    )


def slow_requests(tails: RequestTails, level: float) -> SlowRequests:
    """How the slower requests of a confirmation changed."""
    p90, p99 = tails.p90(level), tails.p99()
    estimate, low, high = (None, None, None) if p90 is None else p90.ratio
    return SlowRequests(
        p90_speedup=estimate, p90_low=low, p90_high=high, p99_longer=p99.ratio,
        p99_longer_at_most=p99.high, requests=p99.requests, tail=p99.verdict, said=p99.told,
    )  # fmt: skip
