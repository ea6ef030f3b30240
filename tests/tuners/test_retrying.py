"""What is measured once more, and what is not."""

from collections.abc import Callable

import pytest

from advisor.tuners.failures import Cause, Failure, TrialFailed
from advisor.tuners.retrying import once_more
from advisor.tuners.session import Interrupted


def measuring(*causes: Cause) -> tuple[Callable[[], int], list[int]]:
    """A measurement that fails so, one time after another, and then gives how often it was taken."""
    taken: list[int] = []

    def measure() -> int:
        taken.append(1)
        if len(taken) <= len(causes):
            raise TrialFailed(Failure(causes[len(taken) - 1], "as it was written down"))
        return len(taken)

    return measure, taken


def test_what_was_cut_off_is_measured_again_and_told() -> None:
    told: list[Failure] = []
    measure, _ = measuring("killed")
    assert once_more(measure, told.append) == 2
    assert [failure.cause for failure in told] == ["killed"]


@pytest.mark.parametrize(
    ("causes", "times"),
    [(("killed", "killed"), 2), (("lost_lease", "user_error"), 2), (("user_error",), 1), (("timeout",), 1)],
)
def test_a_second_cut_and_any_other_failure_is_the_trials(causes: tuple[Cause, ...], times: int) -> None:
    measure, taken = measuring(*causes)
    with pytest.raises(TrialFailed) as failed:
        once_more(measure)
    assert (len(taken), failed.value.failure.cause) == (times, causes[-1])


def test_an_interrupt_is_not_taken_for_one() -> None:
    taken: list[int] = []

    def measure() -> None:
        taken.append(1)
        raise Interrupted

    with pytest.raises(Interrupted):
        once_more(measure)
    assert taken == [1]
