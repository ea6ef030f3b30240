"""Time and price to a goal: what a larger batch learns, failures, and which count to take."""

import pytest

from advisor.base.errors import UsageError
from advisor.planning.choosing import choices
from advisor.planning.goal import Goal, samples_of
from advisor.planning.places import Place, Point
from advisor.planning.plan import Plan, make_plan
from advisor.planning.predicting import Interval

STEP = Interval(100, 90, 120)
EXACT = Interval(1000, 1000, 1000)


def hours(goal: Goal, ranks: int) -> float:
    found = goal.hours(STEP, Place(ranks, 1, 32), 32)
    assert found is not None
    return found.estimate


def test_without_a_noise_scale_samples_are_samples() -> None:
    assert hours(Goal(samples=3.6e8), 1) == pytest.approx(3.6e8 / 32 * 0.1 / 3600)
    assert Goal().hours(STEP, Place(1, 1, 32), 32) is None


def test_epochs_are_samples_where_one_is_known() -> None:
    points = [Point(Place(1, 1, 32), 100), Point(Place(2, 1, 32), 104, epoch_samples=50_000)]
    assert samples_of(90, points) == 4.5e6
    with pytest.raises(UsageError, match="how many samples an epoch has"):
        samples_of(90, points[:1])


def test_a_batch_of_the_noise_scale_needs_twice_the_samples_of_a_tiny_one() -> None:
    assert Goal(noise=EXACT).needed(1000, 1e-9).estimate == pytest.approx(2)
    assert Goal(noise=EXACT).needed(32, 32).estimate == 1


def test_beyond_the_noise_scale_more_ranks_save_no_time() -> None:
    goal = Goal(samples=1e8, noise=EXACT)
    assert hours(goal, 1) / hours(goal, 8) > 5
    assert hours(goal, 512) / hours(goal, 1024) < 1.1


def test_what_is_not_known_of_the_noise_scale_widens_the_interval() -> None:
    found = Goal(noise=Interval(1000, 200, 5000)).needed(3200, 32)
    assert found.low < found.estimate < found.high
    assert found.high == pytest.approx((200 + 3200) / (200 + 32))


def test_failures_cost_more_the_more_ranks_there_are() -> None:
    goal, without = Goal(samples=1e9, hours_between_stops=1000), Goal(samples=1e9)
    assert hours(goal, 1024) / hours(without, 1024) > 1.3
    assert hours(goal, 1) / hours(without, 1) < 1.02


def a_plan(growth: float) -> Plan:
    points = [Point(Place(2**k, 1, 32), 100 * growth**k) for k in range(7)]
    return make_plan(points, [point.place for point in points], goal=Goal(1e8, 2.0))


def test_most_for_the_money_and_the_fastest_are_named() -> None:
    money, fastest = choices([a_plan(1.2)])
    assert money.startswith("most for the money: 1 rank,")
    assert fastest.startswith("fastest that still gains: 64 ranks")


def test_ranks_that_gain_nothing_are_not_taken() -> None:
    assert "still gains: 1 rank," in choices([a_plan(2.05)])[1]


def test_a_deadline_takes_the_cheapest_and_a_sum_the_fastest() -> None:
    plan = a_plan(1.2)
    four, eight = (row for row in plan.predictions if row.ranks in (4, 8))
    assert four.hours is not None and eight.price is not None
    *_, deadline, spend = choices([plan], four.hours.high, eight.price.high)
    assert ": 4 ranks" in deadline and ": 8 ranks" in spend
    *_, deadline, spend = choices([plan], 1e-6, 1e-6)
    assert "no count" in deadline and "no count" in spend


def test_a_plan_without_a_goal_has_no_choice() -> None:
    points = [Point(Place(1, 1, 32), 100)]
    assert choices([make_plan(points, [Place(1, 1, 32)])]) == ()


def test_one_rank_is_told_in_words_and_a_measured_time_without_an_interval() -> None:
    plan = make_plan([Point(Place(1, 1, 32), 100)], [Place(1, 1, 32)], goal=Goal(samples=1e6, price=2.0))
    assert choices([plan])[0] == "most for the money: 1 rank, 0.868 hours, 2"
