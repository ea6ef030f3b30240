"""A measurement that was cut off from outside is taken once more, as it was; of many also more often."""

from collections.abc import Callable
from typing import TypeVar

from advisor.tuners.supervision.failures import Failure, TrialFailed, is_disruption

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


def undisturbed(
    measure: Callable[[], T], late: Callable[[], bool], cut_off: Callable[[Failure], None]
) -> T | None:
    """What ``measure`` gives once other processes do not falsify it; ``None`` when it is too late for that.

    For one measurement of many: a minute of other load says nothing against what is measured.

    Args:
        measure: As of ``once_more``.
        late: Whether no further measurement can be begun.
        cut_off: Is told of every failure after which it is taken anew.

    Raises:
        TrialFailed: It failed by itself, or was cut off twice in another way.
    """
    while not late():
        try:
            return once_more(measure, cut_off)
        except TrialFailed as failed:
            if failed.failure.cause != "interference":
                raise
            cut_off(failed.failure)
    return None
