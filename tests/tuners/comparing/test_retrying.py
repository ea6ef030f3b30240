"""What is measured once more, and what is not."""

from collections.abc import Callable

import pytest

from advisor.tuners.comparing.retrying import once_more, undisturbed
from advisor.tuners.launching.session import Interrupted
from advisor.tuners.supervision.failures import Cause, Failure, TrialFailed

DISTURBED: tuple[Cause, ...] = ("interference",) * 9


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
    [(("killed", "killed"), 2), (("interference", "user_error"), 2), (("user_error",), 1), (("timeout",), 1)],
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


def test_other_load_is_waited_for_while_there_is_time() -> None:
    told: list[Failure] = []
    measure, _ = measuring(*DISTURBED[:4])
    assert undisturbed(measure, lambda: False, told.append) == 5
    assert [failure.cause for failure in told] == ["interference"] * 4


def test_without_time_nothing_is_given() -> None:
    told: list[Failure] = []
    measure, taken = measuring(*DISTURBED)
    assert undisturbed(measure, lambda: len(taken) > 3, told.append) is None
    assert len(taken) == len(told) == 4


def test_what_fails_by_itself_is_not_waited_for() -> None:
    measure, taken = measuring("interference", "user_error")
    with pytest.raises(TrialFailed):
        undisturbed(measure, lambda: False, lambda failure: None)
    assert len(taken) == 2
