"""How long one look may compile, on any node: what follows it starts afresh and compiles as well."""

from collections.abc import Iterator
from contextlib import contextmanager

from advisor.base.durations import write_duration
from advisor.tuners.mechanisms.compiling import compiles
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.constraints import COMPILE_S
from advisor.tuners.supervision.failures import OutOfTime, TrialFailed
from advisor.tuners.supervision.limits import Limits

COMPILING = 0.5  # of the time left


@contextmanager
def compiling_within(limits: Limits, left_s: float, config: Configuration) -> Iterator[None]:
    """Let one look compile no longer than its share of the time.

    Args:
        limits: Of the processes that it starts.
        left_s: Seconds after which no further look is taken.
        config: That is looked at.

    Raises:
        OutOfTime: It was still compiling then.
    """
    usual_s = limits.compile_s
    limits.compile_s = limit_s = min(usual_s, max(COMPILE_S, COMPILING * left_s))
    try:
        yield
    except TrialFailed as failed:
        if failed.failure.cause == "timeout" and compiles(config) and limit_s < usual_s:
            raise OutOfTime(f"to compile for more than {write_duration(limit_s)}") from failed
        raise
    finally:
        limits.compile_s = usual_s
