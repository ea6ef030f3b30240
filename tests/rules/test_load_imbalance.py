import pytest
from builders import a_loader, a_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import Location, RankFacts
from advisor.rules.load_imbalance import LoadImbalance

HERE = Location("train.py", 5)


def check(one: tuple[float, ...], other: tuple[float, ...], wait_ms: float = 1.5) -> Finding:
    ranks = (
        RankFacts(0, 10.0, wait_ms=wait_ms, step_series_ms=one),
        RankFacts(1, 10.0, wait_ms=wait_ms, step_series_ms=other),
    )
    return LoadImbalance().check(a_profile(ranks=ranks, loader=a_loader(location=HERE)))


def memory(one: int, other: int, used: float) -> Finding:
    ranks = (
        RankFacts(0, 10.0, memory_bytes=one, memory_share=used),
        RankFacts(1, 10.0, memory_bytes=other, memory_share=used / 2),
    )
    return LoadImbalance().check(a_profile(ranks=ranks))


def test_ranks_with_other_amounts_of_work_are_reported_with_the_mean_wait() -> None:
    finding = check((8.0,) * 20, (6.0,) * 15 + (8.0,) * 5)
    assert finding.title == "15 % of each step waits for ranks with more work"
    assert (finding.state, finding.severity, finding.location) == (State.OPPORTUNITY, Severity.MEDIUM, HERE)
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.15)
    assert finding.evidence["histogram_distance"] == 0.75
    assert "`DistributedSampler`" in finding.advice and "order of samples changes" in finding.advice


def test_less_than_half_of_the_steps_elsewhere_passes() -> None:
    assert check((8.0,) * 20, (6.0,) * 9 + (8.0,) * 11).state is State.PASSED


def test_ranks_that_differ_by_a_little_are_alike() -> None:
    assert check((8.0,) * 20, (8.1,) * 20).state is State.PASSED


def test_unequal_work_that_nobody_waits_for_passes() -> None:
    assert check((8.0,) * 20, (5.0,) * 20, wait_ms=0.1).state is State.PASSED


def test_one_rank_that_fills_its_memory_is_told_by_how_full_it_is() -> None:
    assert memory(100, 69, 0.6).severity is Severity.MEDIUM
    finding = memory(100, 75, 0.4)
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.LOW)
    assert finding.title == "25 % less memory is used on one rank than on another"
    assert memory(100, 60, 0.2).state is State.PASSED
    assert memory(100, 85, 0.9).state is State.PASSED


def test_without_ranks_or_what_they_did_nothing_is_said() -> None:
    unwatched = a_profile(ranks=(RankFacts(0, 1.0), RankFacts(1, 1.0)))
    assert LoadImbalance().check(unwatched).state is State.NOT_APPLICABLE
