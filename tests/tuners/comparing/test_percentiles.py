"""Percentiles of requests, how many they take, and when a tail speaks against a change."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from builders import a_profile

from advisor.base.settings import Settings, TargetRequest, Value
from advisor.profiles.facts.profile import RunFacts
from advisor.stages.confirming.confirmation_plan import AMPLE, instance_quads, tail_quads
from advisor.stages.confirming.request_tails import RequestTails
from advisor.stages.latencies import latency
from advisor.tuners.comparing.duel import Duel
from advisor.tuners.comparing.percentiles import Tail, least_requests, percentile, tail
from advisor.tuners.comparing.request_duel import LatencyArena, RequestArena
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.trial.messages import Slot
from advisor.tuners.trial.spec import Target


def slots(seed: int, *, faster: float = 1.0, slow: float = 1.0, count: int = 20) -> list[Slot]:
    """Slots of fifty requests of 10 ms with noise; one in fifty takes ``slow`` times as long."""
    source = random.Random(seed)
    return [
        Slot(
            tuple(
                0.01 * source.lognormvariate(0, 0.05) / faster * (slow if number == 49 else 1)
                for number in range(50)
            )
        )
        for _ in range(count)
    ]


def an_arena(kind: type[RequestArena], step_s: float) -> RequestArena:
    arena = kind(Launcher(Target("script", "serve.py"), Path()), {}, {})
    arena.step_s = step_s
    return arena


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.9, (64, 81, 97)), (0.95, (130, 165, 198)), (0.99, (662, 838, 1001))],
)
def test_a_bound_on_a_percentile_takes_as_many_requests_as_mlperf_has(
    share: float, expected: Sequence[int]
) -> None:
    assert tuple(least_requests(share, discarded) for discarded in (1, 2, 3)) == expected


def test_a_percentile_is_one_of_the_times() -> None:
    assert [percentile([3.0, 1.0, 2.0, 4.0], share) for share in (0.5, 0.75, 0.99)] == [2.0, 3.0, 4.0]


def test_one_request_in_fifty_that_takes_ten_times_as_long_shows() -> None:
    assert tail(slots(1), slots(2, faster=1.5)).verdict == "not_longer"
    found = tail(slots(1), slots(2, faster=1.5, slow=15.0))
    assert found.verdict == "not_shown" and found.ratio is not None and found.ratio > 5
    assert "tail not shown" in found.told and "1.05 are allowed" in found.told


def test_too_few_requests_tell_no_tail() -> None:
    found = tail(slots(1, count=13), slots(2, count=40))
    assert (found.verdict, found.requests, found.high) == ("too_few", 650, None)
    assert "662 at least" in found.told


def test_a_shorter_median_with_longer_slow_requests_meets_an_objection() -> None:
    def tails(slow: float) -> RequestTails:
        found = RequestTails()
        for seed in range(4):
            first = [Slot(times.step_s[:40] + tuple(2 * each for each in times.step_s[40:]))
                     for times in slots(seed)]  # fmt: skip
            second = [
                Slot(times.step_s[:40] + tuple(slow * each for each in times.step_s[40:]))
                for times in slots(9 + seed, faster=1.5)
            ]
            found.add(Duel("baton", [0.4], first, second))
        return found

    assert tails(2.0).objection(0.99) == ""
    assert "p90 is not shown to be shorter" in tails(6.0).objection(0.99)
    assert not tails(2.0).may_be_shown(0.99) and not tails(6.0).may_be_shown(0.99)


@pytest.mark.parametrize(
    ("changed", "objects"),
    [({"execution": "jit_freeze"}, True), ({"length_bucketing": 8}, False), ({"serving_batch": 64}, False)],
)
def test_slow_requests_of_other_samples_are_no_objection(changed: dict[str, Value], objects: bool) -> None:
    settings = Settings(target=TargetRequest(kind="workload", name="serve.py"), objective="requests")
    found = RequestTails.of(settings, a_profile(run=RunFacts(requests_batch=32)), changed)
    assert found is not None
    for seed in range(4):
        found.add(Duel("baton", [0.4], slots(seed), slots(9 + seed, faster=0.5)))
    assert bool(found.objection(0.99)) is objects


def bursts(seed: int, slower: float, quads: int = 40) -> tuple[list[Slot], list[Slot]]:
    """Two arms whose slow requests differ by ``slower``; the machine is busy in some quads."""
    source = random.Random(seed)
    arms: tuple[list[Slot], list[Slot]] = ([], [])
    for _ in range(quads):
        busy = 3.0 if source.random() < 0.2 else 1.0
        for arm, longer in zip(arms, (1.0, slower), strict=True):
            for _ in range(2):
                times = [source.lognormvariate(0, 0.1) for _ in range(48)]
                slow = [2.0 * busy * longer * source.lognormvariate(0, 0.1) for _ in range(2)]
                arm.append(Slot(tuple(times + slow)))
    return arms


def test_what_the_machine_does_to_both_arms_widens_no_bound_and_a_longer_tail_is_still_told() -> None:
    same, longer = (
        [tail(*bursts(seed, slower)).verdict == "not_longer" for seed in range(20)] for slower in (0.85, 1.15)
    )
    assert sum(same) >= 18 and sum(longer) <= 1
    first, second = bursts(1, 0.85)
    apart = tail(first, second[2:]).high
    paired = tail(first, second).high
    assert apart is not None and paired is not None and paired < apart


def test_slow_requests_that_seem_shorter_ask_for_more_pairs() -> None:
    found = RequestTails()
    for seed, slower in enumerate((1.0, 0.7)):
        found.add(Duel("baton", [0.4], slots(seed), slots(9 + seed, faster=1.5 * slower)))
    assert "p90 is not shown" in found.objection(0.99) and found.may_be_shown(0.99)
    found.limit_s = 1.0
    assert not found.may_be_shown(0.99)


def test_latencies_have_a_tail_where_it_can_be_told() -> None:
    few, many = latency(slots(1, count=2), []), latency(slots(1, count=20), [2.0, 3.0])
    assert few is not None and few.p99_ms is None and few.cold_start_s is None
    assert many is not None and many.p99_ms is not None and many.cold_start_s == 2.5
    assert many.requests_per_s == pytest.approx(100, rel=0.05)
    assert latency([], []) is None


@pytest.mark.parametrize(("step_s", "requests"), [(1e-5, 5000), (0.01, 50), (0.1, 10), (5.0, 3)])
def test_a_slot_has_about_fifty_requests(step_s: float, requests: int) -> None:
    assert an_arena(LatencyArena, step_s).steps() == requests


def test_latency_compares_medians_and_requests_means() -> None:
    slot = Slot((0.01, 0.01, 0.04), 2.0)
    assert an_arena(LatencyArena, 0.01).seconds(slot, by_work=False) == 0.01
    assert an_arena(RequestArena, 0.01).seconds(slot, by_work=False) == pytest.approx(0.02)


def test_a_bound_just_above_what_is_allowed_is_told_apart_from_it() -> None:
    assert "at most 1.0512 times, 1.05 are allowed" in Tail("not_shown", 0.96, 1.0512, 9000).told
    assert "at most 1.09 times, 1.05 are allowed" in Tail("not_shown", 0.96, 1.091, 9000).told


def test_two_pairs_have_the_requests_that_a_tail_takes() -> None:
    assert tail_quads(an_arena(LatencyArena, 0.01)) * 2 * 2 * 50 >= 662


@pytest.mark.parametrize("step_s", [1e-4, 0.005])
def test_a_longer_budget_has_more_requests_in_a_pair(step_s: float) -> None:
    arena = an_arena(LatencyArena, step_s)
    request, kept = TargetRequest(kind="script", name="serve.py"), []
    for budget_s in (60.0, 600.0, 6000.0):
        quads = instance_quads(arena, Settings(target=request, budget_s=budget_s, objective="latency"), 1.0)
        kept.append(quads * arena.quad_s / budget_s)
        assert kept[-1] <= 0.125 and quads >= tail_quads(arena)
    assert kept[0] > kept[1] > kept[2] or kept[1] <= 0.05
    assert quads == max(AMPLE * tail_quads(arena), 12)


@pytest.mark.parametrize(
    ("ratio", "high", "requests", "needed"),
    [(1.01, 1.11, 15_000, 89_000), (0.9, 1.06, 1000, 1200), (1.06, 1.2, 15_000, None)],
)
def test_a_tail_that_is_not_shown_says_how_many_requests_would(
    ratio: float, high: float, requests: int, needed: int | None
) -> None:
    tail = Tail("not_shown", ratio, high, requests)
    assert tail.requests_needed == needed
    assert (f"about {needed or 0:,} requests would tell, of {requests:,}" in tail.told) is bool(needed)
    assert Tail("not_longer", ratio, high, requests).requests_needed is None
