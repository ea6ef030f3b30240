"""Communication that hides under backward, in buckets; what sticks out is paid."""

SLOWED_COMPUTING = 1.13  # computing beside communication, measured by Miao and others, 2022 (Galvatron)


def exposed_s(communication_s: float, backward_s: float, *, buckets: int, hidden: float = 1.0) -> float:
    """Seconds of communication that do not hide: ``max(0, T - w T_backward) + T / m`` (Li and others, 2020).

    Args:
        communication_s: All communication of one step.
        backward_s: Computing under which it may hide.
        buckets: Number of messages; the last one always sticks out.
        hidden: Share of backward that can hide communication, from 0 to 1.

    Raises:
        ValueError: There is no bucket.
    """
    if buckets < 1:
        raise ValueError("at least one bucket is needed")
    last = communication_s / buckets
    return min(communication_s, max(0.0, communication_s - hidden * backward_s) + last)


def contention_s(communication_s: float, computing_s: float) -> float:
    """Seconds that computing takes longer because communication runs beside it."""
    return min(communication_s, computing_s) * (SLOWED_COMPUTING - 1)
