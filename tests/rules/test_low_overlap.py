from dataclasses import replace

import pytest
from builders import a_profile, a_root, a_share, a_window

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import RankFacts
from advisor.profiles.facts.replayed import Replays
from advisor.rules.low_overlap import LowOverlap


def check(all_ms: float, exposed_ms: float, parallel: str = "DistributedDataParallel") -> Finding:
    ranks = tuple(RankFacts(rank, 10.0, communication_ms=all_ms, exposed_ms=exposed_ms) for rank in range(2))
    return LowOverlap().check(a_profile(ranks=ranks, roots=(a_root(parallel=parallel),)))


def test_communication_that_mostly_stands_alone_is_reported_with_its_share_of_the_step() -> None:
    finding = check(4.0, 3.0)
    assert finding.title == "25 % of the communication overlaps with computing"
    assert (finding.state, finding.severity, finding.knobs) == (State.OPPORTUNITY, Severity.HIGH, ("ddp",))
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.3)
    assert "bucket_cap_mb=5" in finding.advice


def test_sharded_models_fetch_ahead_instead() -> None:
    finding = check(4.0, 3.0, "FSDPLinear")
    assert "set_modules_to_forward_prefetch" in finding.advice and "memory" in finding.advice
    assert finding.knobs == ("fsdp",)


def test_the_replay_is_the_ceiling_where_there_is_one() -> None:
    ranks = (RankFacts(0, 10.0, communication_ms=4.0, exposed_ms=3.0),)
    roots = (a_root(parallel="DistributedDataParallel"),)
    replays = Replays(communication_off=a_share(0.12))
    finding = LowOverlap().check(a_profile(ranks=ranks, roots=roots, replays=replays))
    assert finding.ceiling is not None and finding.ceiling.source == "replay"
    assert finding.severity is Severity.MEDIUM


def test_well_overlapped_communication_passes() -> None:
    assert check(4.0, 1.1).state is State.PASSED


def test_little_communication_need_not_overlap() -> None:
    assert check(0.1, 0.1).state is State.PASSED
    assert check(0.0, 0.0).title == "0.0 % of the step communicates"


def test_buckets_of_a_trace_are_spoken_of_only_where_a_range_names_the_wrapper() -> None:
    ranks = (RankFacts(0, 10.0, communication_ms=4.0, exposed_ms=3.0),)
    for wrapped in (True, False):
        profile = a_profile(ranks=ranks, window=a_window(wrapped=wrapped))
        finding = LowOverlap().check(replace(profile, target_kind="trace"))
        assert finding.fired is wrapped and ("bucket_cap_mb" in finding.advice) is wrapped
