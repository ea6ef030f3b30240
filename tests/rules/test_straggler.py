from typing import Any

import pytest
from builders import a_profile, a_root

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import RankFacts
from advisor.profiles.facts.profile import Profile
from advisor.rules.straggler import Straggler


def two_ranks(slow: dict[str, float], fast: dict[str, float], wait_ms: float = 3.0, **facts: Any) -> Profile:
    ranks = (
        RankFacts(0, 10.0, wait_ms=wait_ms, phases_ms=tuple(fast.items())),
        RankFacts(1, 10.0, wait_ms=0.0, phases_ms=tuple(slow.items())),
    )
    return a_profile(ranks=ranks, **facts)


def test_the_rank_that_waits_least_is_the_slow_one_and_its_slow_phase_is_named() -> None:
    profile = two_ranks({"input_wait": 3.5, "forward": 2.2}, {"input_wait": 0.7, "forward": 2.0})
    finding = Straggler().check(profile)
    assert finding.title == "30 % of each step waits for rank 1, slow in input wait"
    assert (finding.state, finding.severity) == (State.OPPORTUNITY, Severity.HIGH)
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.3)


def test_a_phase_that_covers_too_little_of_the_wait_is_not_named() -> None:
    profile = two_ranks({"input_wait": 2.2, "forward": 3.5}, {"input_wait": 0.7, "forward": 2.0})
    finding = Straggler().check(profile)
    assert finding.title == "30 % of each step waits for rank 1"
    assert finding.evidence["phase"] is None and "no single phase" in finding.advice


def test_the_sums_of_a_rank_serve_where_its_phases_are_not_known() -> None:
    ranks = (RankFacts(0, 10.0, compute_ms=5.0, wait_ms=2.0), RankFacts(1, 10.0, compute_ms=7.0))
    finding = Straggler().check(a_profile(ranks=ranks))
    assert finding.title == "20 % of each step waits for rank 1, slow in compute"


def test_sharded_runs_are_at_most_medium() -> None:
    finding = Straggler().check(two_ranks({}, {}, 5.0, roots=(a_root(parallel="FSDPNet"),)))
    assert finding.severity is Severity.MEDIUM


def test_a_short_wait_passes_with_its_number() -> None:
    finding = Straggler().check(two_ranks({}, {}, 0.9))
    assert (finding.state, finding.title) == (
        State.PASSED,
        "9.0 % of the step is the longest wait for another rank",
    )


def test_a_single_process_is_not_judged() -> None:
    assert Straggler().check(a_profile(ranks=(RankFacts(0, 1.0),))).state is State.NOT_APPLICABLE
