"""Times of requests in words: by percentile, before and after."""

from advisor.base.durations import write_latency, write_rate
from advisor.result import wording
from advisor.result.document import ProfileData, ResultData
from advisor.result.latency import Latency, UnderLoad

COMPUTED = "the queue is computed from times of answering: a network and a web framework come on top"


def rows(result: ResultData) -> list[tuple[str, str]]:
    """What it was, and with a confirmed change; empty where no requests were counted."""
    before, after = result.baseline.latency, result.recommendation.latency
    if before is None:
        return []
    told = [("now", percentiles(before))]
    if after is not None and result.recommendation.verdict == "change":
        told.append(("changed", percentiles(after) + _peak(result)))
    return told


def _peak(result: ResultData) -> str:
    """Memory of the process that confirmed the change: what exports or quantises a model runs in it, too."""
    config = result.recommendation.config
    peaks = [each.peak_bytes for each in result.trials if each.stage == "confirm" and each.config == config]
    return f", peak memory {wording.mib(peaks[-1])} with what makes the change" if peaks and peaks[-1] else ""


def under_limit(result: ResultData) -> list[tuple[str, str]]:
    """What requests that arrive at random wait, before and after, beside the limit; empty without one."""
    before, after = result.baseline.latency, result.recommendation.latency
    if before is None or before.under_limit is None:
        return []
    own = before.under_limit
    other = None if after is None or result.recommendation.verdict != "change" else after.under_limit
    told = []
    for at, load in enumerate(own.loads):
        times = [f"now {_waited(load)}"] + ([] if other is None else [f"changed {_waited(other.loads[at])}"])
        told.append((f"p{own.percentile} at {write_rate(load.requests_per_s)}", ", ".join(times)))
    most = [f"now {write_rate(own.most_per_s)}"]
    most += [] if other is None else [f"changed {write_rate(other.most_per_s)}"]
    return [
        *told,
        (f"within {write_latency(own.limit_ms / 1e3)}", f"{', '.join(most)}; {COMPUTED}"),
    ]


def _waited(load: UnderLoad) -> str:
    if load.time_ms is None or load.at_most_ms is None:
        return "fewer are answered than arrive"
    over = "" if load.within_limit else ", over the limit"
    times = write_latency(load.time_ms / 1e3), write_latency(load.at_most_ms / 1e3)
    return f"{times[0]} (at most {times[1]}{over})"


def percentiles(latency: Latency) -> str:
    """``p50 10 ms, p90 14.6 ms, p99 17.4 ms (1,102 requests), first answer after 2.1 s``."""
    known = {"p50": latency.p50_ms, "p90": latency.p90_ms, "p99": latency.p99_ms}
    parts = [f"{name} {write_latency(value / 1e3)}" for name, value in known.items() if value is not None]
    first = latency.cold_start_s
    start = "" if first is None else f", first answer after {wording.seconds(first)}"
    return f"{', '.join(parts)} ({latency.requests:,} requests){start}"


def lines(result: ResultData) -> list[str]:
    """For a terminal."""
    told = [f"Requests {when}: {text}" for when, text in rows(result)]
    told += [f"Arrivals at random, {what}: {text}" for what, text in under_limit(result)]
    slow = result.recommendation.slow_requests
    if slow is not None and result.recommendation.verdict == "change":
        told.append(f"Slow requests: {wording.shown(slow.said)}")
    return told


def unit(result: ResultData | ProfileData) -> str:
    """What its times are of."""
    baseline = result.baseline
    return "step" if baseline is None or baseline.latency is None else "request"
