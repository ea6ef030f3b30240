"""What requests wait in a queue: against what is known of queues, and beside a limit."""

import math
import queue
import random
import threading
import time

import numpy
import pytest

from advisor.stages.confirming.request_tails import RequestTails, over_limit, side_by_side
from advisor.tuners.comparing.arrivals import (
    LOADS,
    arriving,
    capacity,
    response_times,
    response_times_together,
    shown_share,
)
from advisor.tuners.comparing.duel import Duel
from advisor.tuners.trial.messages import Slot


def slots(seed: int = 0, *, mean_s: float = 0.01, count: int = 200, exponential: bool = False) -> list[Slot]:
    """Slots of fifty requests, of like length or of random ones (as in an M/M/1 queue)."""
    source = random.Random(seed)

    def time_s() -> float:
        return source.expovariate(1 / mean_s) if exponential else mean_s * source.lognormvariate(0, 0.02)

    return [Slot(tuple(time_s() for _ in range(50))) for _ in range(count)]


def test_a_request_waits_for_those_that_came_before_it() -> None:
    service, gaps = numpy.array([3.0, 1.0, 1.0, 1.0]), numpy.array([9.0, 1.0, 1.0, 5.0])
    assert response_times(service, gaps).tolist() == [3.0, 3.0, 3.0, 1.0]


def test_random_times_wait_as_theory_says() -> None:
    """In an M/M/1 queue times from arrival are exponential: p99 is ln 100 over what is left of the rate."""
    measured = slots(exponential=True)
    per_s = capacity(measured)
    found = arriving(measured, 1.0, 0.99)
    for load, at in zip(LOADS[:2], found.loads, strict=False):
        assert at.time_s == pytest.approx(math.log(100) / (per_s * (1 - load)), rel=0.15)
        assert at.time_s is not None and at.at_most_s is not None and at.at_most_s > at.time_s


def test_constant_times_wait_less_than_random_ones_and_more_under_more_load() -> None:
    even, uneven = arriving(slots(), 1.0, 0.99), arriving(slots(exponential=True), 1.0, 0.99)
    for ours, theirs in zip(even.loads, uneven.loads, strict=True):
        assert ours.time_s is not None and theirs.time_s is not None and ours.time_s < theirs.time_s / 1.3
    times = [each.time_s or 0.0 for each in even.loads]
    assert times == sorted(times) and times[0] > 0.01


def test_the_highest_rate_keeps_the_limit_and_a_shorter_limit_has_a_lower_one() -> None:
    measured = slots(count=40)
    rates = [arriving(measured, limit_s, 0.99).most_per_s for limit_s in (0.005, 0.02, 0.05, 0.2)]
    assert rates == sorted(rates) and rates[0] == 0 and 50 < rates[2] < 100 * 0.95


@pytest.mark.parametrize(("requests", "share"), [(63, None), (64, 0.9), (661, 0.9), (662, 0.99)])
def test_few_requests_show_a_lower_percentile_or_none(requests: int, share: float | None) -> None:
    assert shown_share(requests) == share


def test_what_is_slow_for_longer_than_a_slot_lets_a_queue_grow_for_as_long() -> None:
    """Truth is the queue of what was measured in its order, over and over."""
    source = random.Random(0)
    slow = range(8, 16)  # of 40 slots, in which something else takes a third of the machine
    measured = [
        Slot(tuple(0.01 * (1.5 if at in slow else 1) * source.lognormvariate(0, 0.02) for _ in range(50)))
        for at in range(40)
    ]
    in_order = numpy.tile(numpy.concatenate([slot.step_s for slot in measured]), 50)
    gaps = numpy.random.default_rng(1).exponential(1 / capacity(measured), len(in_order))
    for at in arriving(measured, 1.0, 0.99).loads:
        waited = numpy.quantile(response_times(in_order, gaps / at.load), 0.99)
        assert at.time_s is not None and at.at_most_s is not None
        assert at.time_s == pytest.approx(waited, rel=0.4) and waited < at.at_most_s


def test_requests_wait_in_a_real_queue_no_less_than_is_computed_and_as_long_with_what_lies_between() -> None:
    """One thread answers what another puts into a queue: busy times and arrivals are those of that run."""
    waiting: queue.SimpleQueue[float | None] = queue.SimpleQueue()
    answered: list[tuple[float, float, float]] = []  # when it arrived, was begun and answered
    numbers = numpy.random.default_rng(0).random((160, 160))

    def answer() -> None:
        while (arrived := waiting.get()) is not None:
            began = time.perf_counter()
            numpy.linalg.svd(numbers)
            answered.append((arrived, began, time.perf_counter()))

    server = threading.Thread(target=answer)
    server.start()
    source = random.Random(0)
    for _ in range(200):
        until = time.perf_counter() + source.expovariate(1 / 0.004)
        while time.perf_counter() < until:
            time.sleep(0)
        waiting.put(time.perf_counter())
    waiting.put(None)
    server.join()
    arrived, began, ended = map(numpy.array, zip(*answered, strict=True))
    gaps = numpy.diff(arrived, prepend=arrived[0])
    computed = response_times(ended - began, gaps)
    assert (ended - arrived >= computed - 1e-6).all()
    busy = ended - numpy.maximum(arrived, numpy.concatenate([arrived[:1], ended[:-1]]))
    assert ended - arrived == pytest.approx(response_times(busy, gaps), abs=1e-6)


def test_both_programs_get_the_same_arrivals_and_a_slow_one_falls_behind() -> None:
    found = side_by_side(slots(count=20), slots(1, mean_s=0.012, count=20), 0.05)
    assert found is not None
    before, after = found
    assert [each.per_s for each in before.loads] == [each.per_s for each in after.loads]
    assert after.loads[2].time_s is None and before.loads[2].time_s is not None


@pytest.mark.parametrize(
    ("mean_s", "limit_s", "why"),
    [
        (0.005, 0.05, ""),
        (0.005, 0.004, "the limit of 4 ms is not kept at 50 requests/s (50% of what it answers now)"),
        (0.013, 0.06, "as it is the program keeps it"),
    ],
)
def test_a_limit_must_be_kept_at_the_lowest_load_and_where_it_was_before(
    mean_s: float, limit_s: float, why: str
) -> None:
    told = over_limit(side_by_side(slots(count=20), slots(1, mean_s=mean_s, count=20), limit_s), limit_s)
    assert (why in told) if why else not told


def test_what_other_programs_slowed_counts_for_what_requests_wait_and_for_nothing_else() -> None:
    def tails(*disturbed: Slot) -> RequestTails:
        found = RequestTails(0.5)
        for seed in range(4):
            arms = slots(seed, count=8), slots(seed + 9, count=8)
            found.add(Duel("baton", [0.0], *arms, disturbed=([], list(disturbed))))
        return found

    calm, beside = tails(), tails(Slot((0.02,) * 50), Slot((0.02,) * 50))
    assert calm.p90(0.99) == beside.p90(0.99) and calm.p99() == beside.p99()
    without, with_them = calm.arrivals(), beside.arrivals()
    assert without is not None and with_them is not None
    for ours, theirs in zip(without[1].loads[:2], with_them[1].loads, strict=False):
        assert ours.time_s is not None and theirs.time_s is not None and theirs.time_s > 1.3 * ours.time_s


def test_too_few_requests_show_no_limit() -> None:
    few = slots(count=1)
    assert side_by_side(few, few, 0.05) is None
    assert "p90 takes 64 requests" in over_limit(None, 0.05)


def test_those_that_wait_are_answered_together() -> None:
    arrivals = [0.0, 1.0, 2.0, 3.0, 20.0]
    assert response_times_together([4.0] * 5, arrivals, 3).tolist() == [4.0, 7.0, 6.0, 5.0, 4.0]
    assert response_times_together([4.0] * 5, arrivals, 2).tolist() == [4.0, 7.0, 6.0, 9.0, 4.0]


def test_one_at_a_time_waits_alike_by_either_way() -> None:
    source = numpy.random.default_rng(3)
    service, gaps = source.exponential(0.7, 500), source.exponential(1.0, 500)
    together = response_times_together(service.tolist(), numpy.cumsum(gaps).tolist(), 1)
    assert together == pytest.approx(response_times(service, gaps).tolist())


def test_a_larger_batch_answers_more_and_lets_a_request_wait_longer() -> None:
    one = arriving(slots(count=20), 0.05, 0.99)
    eight = arriving(slots(1, mean_s=0.03, count=20), 0.05, 0.99, one.loads[0].per_s / LOADS[0], 8)
    assert eight.loads[0].time_s is not None and one.loads[0].time_s is not None
    assert eight.loads[0].time_s > 1.3 * one.loads[0].time_s
    assert eight.loads[2].time_s is not None and eight.loads[2].time_s < 0.07
