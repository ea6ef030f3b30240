"""A measurement that was cut off from outside is taken once more, as it was."""

from collections.abc import Callable
from typing import TypeVar

from advisor.tuners.failures import Failure, TrialFailed, is_disruption

T = TypeVar("T")


def once_more(measure: Callable[[], T], cut_off: Callable[[Failure], None] = lambda failure: None) -> T:
    """What ``measure`` gives; if it was disrupted, what it gives the second time.

    The user's own interrupt is no failure and passes through.

    Args:
        measure: Starts its processes itself.
        cut_off: Is told of the first failure before the second time.

    Raises:
        TrialFailed: It failed by itself, or was disrupted twice.
    """
    try:
        return measure()
    except TrialFailed as failed:
        if not is_disruption(failed.failure):
            raise
        cut_off(failed.failure)
    return measure()
