from typing import Any

from builders import a_profile, a_share

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import RankFacts
from advisor.profiles.facts.replayed import Replays
from advisor.rules.comm_not_worth_it import CommNotWorthIt


def check(exposed_ms: float, ranks: int = 2, **facts: Any) -> Finding:
    each = tuple(RankFacts(rank, 10.0, exposed_ms=exposed_ms) for rank in range(ranks))
    return CommNotWorthIt().check(a_profile(ranks=each, **facts))


def test_two_ranks_that_mostly_communicate_are_no_faster_than_one_process() -> None:
    finding = check(5.0)
    assert finding.title == "0.75x the samples/s of one process, from 2 ranks (model, not measured)"
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.MEDIUM)
    assert "`torch.set_num_threads(4)`" in finding.advice and "global batch" in finding.advice


def test_ranks_that_gain_more_than_threads_would_pass() -> None:
    finding = check(2.0)
    assert finding.state is State.PASSED and finding.title.startswith("1.2x")


def test_a_device_per_rank_is_worth_more_than_one_device() -> None:
    assert check(4.0, device="cuda:0").state is State.PASSED
    finding = check(5.0, device="cuda:0")
    assert finding.title.startswith("1x") and "fewer ranks" in finding.advice


def test_the_replay_counts_where_there_is_one() -> None:
    assert check(5.0, replays=Replays(communication_off=a_share(0.1))).state is State.PASSED


def test_a_single_process_is_not_judged() -> None:
    assert check(0.0, ranks=1).state is State.NOT_APPLICABLE
