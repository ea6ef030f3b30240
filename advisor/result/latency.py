"""What a result says of requests to a trained model: percentiles, how many a second, the first one."""

from typing import Literal

from advisor.result.header import Finite, Record


class UnderLoad(Record):
    """Requests that arrive at random: ``time_ms`` is the percentile from arrival to answer, waiting included.

    ``load`` is the share of what the unchanged program answers one after the other, ``at_most_ms`` the upper
    bound (one-sided, 99 %); both times are ``null`` where fewer are answered than arrive.
    """

    load: Finite
    requests_per_s: Finite
    time_ms: Finite | None = None
    at_most_ms: Finite | None = None
    within_limit: bool


class UnderLimit(Record):
    """One program under several loads, beside a limit: ``percentile`` is 99, or 90 of few requests.

    ``most_per_s`` is the highest rate at which the limit is kept, 0 where none is. ``queue`` says where the
    times are from: ``computed`` from times of answering that were measured one after the other.
    """

    limit_ms: Finite
    percentile: int
    loads: list[UnderLoad]
    most_per_s: Finite
    queue: Literal["computed"] = "computed"


class Latency(Record):
    """Times of requests one after the other; ``p99_ms`` only where there were enough of them.

    ``cold_start_s`` is from the start of a process to its first answer: imports, loading, compiling.
    ``under_limit`` is ``None`` without ``--latency-limit``, or with too few requests for it.
    """

    requests: int
    p50_ms: Finite
    p90_ms: Finite
    p99_ms: Finite | None = None
    requests_per_s: Finite
    cold_start_s: Finite | None = None
    under_limit: UnderLimit | None = None


class SlowRequests(Record):
    """How the slower requests changed: ``p90_*`` is speed, above 1 where it is shorter, ``p99_*`` its length.

    ``tail`` is ``not_longer``, ``not_shown`` or ``too_few`` requests to tell.
    """

    p90_speedup: Finite | None = None
    p90_low: Finite | None = None
    p90_high: Finite | None = None
    p99_longer: Finite | None = None
    p99_longer_at_most: Finite | None = None
    requests: int
    tail: Literal["not_longer", "not_shown", "too_few"]
    said: str = ""
