"""A costly call is repeated only as often as its share of the time allows."""

import pytest

from advisor.seldom import Seldom


class Work:
    """An action that takes ``cost_s`` of a clock that only it and the test move."""

    def __init__(self, cost_s: float) -> None:
        self.now, self.cost_s, self.calls = 100.0, cost_s, 0

    def __call__(self) -> None:
        self.calls += 1
        self.now += self.cost_s

    def clock(self) -> float:
        return self.now


def test_the_first_call_is_made_at_once() -> None:
    work = Work(cost_s=3.0)
    Seldom(work, 0.1, work.clock)()
    assert work.calls == 1


@pytest.mark.parametrize("share", [0.02, 0.25])
def test_a_call_is_left_out_until_its_cost_is_within_the_share(share: float) -> None:
    work = Work(cost_s=1.0)
    seldom = Seldom(work, share, work.clock)
    seldom()
    work.now += 1.0 / share - 0.01
    seldom()
    assert work.calls == 1
    work.now += 0.02
    seldom()
    assert work.calls == 2


def test_what_costs_nothing_is_never_left_out() -> None:
    work = Work(cost_s=0.0)
    seldom = Seldom(work, 0.02, work.clock)
    for _ in range(5):
        seldom()
    assert work.calls == 5


def test_an_action_that_grows_is_called_more_and_more_seldom() -> None:
    work = Work(cost_s=0.001)
    seldom = Seldom(work, 0.02, work.clock)
    gaps, last = [], 0
    for trial in range(2000):
        work.cost_s = 0.001 * (trial + 1)
        work.now += 0.1
        before = work.calls
        seldom()
        if work.calls > before:
            gaps.append(trial - last)
            last = trial
    assert gaps[-1] > 10 * max(gaps[1], 1)
    assert work.calls < 200
