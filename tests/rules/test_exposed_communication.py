from dataclasses import replace

from builders import a_profile, a_root, a_share, a_window

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import Location, RankFacts
from advisor.profiles.facts.recorded import Collective
from advisor.profiles.facts.replayed import Replays
from advisor.rules.exposed_communication import ExposedCommunication
from advisor.rules.low_overlap import LowOverlap

HERE = Location("train.py", 12)


def check(*exposed_ms: float, replays: Replays | None = None) -> Finding:
    ranks = tuple(
        RankFacts(rank, 10.0, communication_ms=4.0, exposed_ms=ms) for rank, ms in enumerate(exposed_ms)
    )
    root = a_root(parallel="DistributedDataParallel", location=HERE)
    return ExposedCommunication().check(a_profile(ranks=ranks, roots=(root,), replays=replays or Replays()))


def test_the_mean_over_the_ranks_is_the_ceiling_without_a_replay() -> None:
    finding = check(1.0, 2.0)
    assert finding.title == "15 % of each step communicates without computing"
    assert finding.ceiling is not None and finding.ceiling.source == "timeline"
    assert (finding.severity, finding.location) == (Severity.MEDIUM, HERE)
    assert "bucket_cap_mb=100" in finding.advice


def test_exchanges_that_no_bucket_changes_get_other_advice() -> None:
    ranks = (RankFacts(0, 10.0, communication_ms=4.0, exposed_ms=3.0),)
    profile = a_profile(
        ranks=ranks, collectives=(Collective("send_recv", 7, 3.0), Collective("all_reduce", 1, 1.0))
    )
    for finding in (ExposedCommunication().check(profile), LowOverlap().check(profile)):
        assert "async_op=True" in finding.advice and "bucket" not in finding.advice
        assert finding.knobs == ()


def test_a_range_of_a_trace_tells_that_a_model_is_wrapped() -> None:
    ranks = (RankFacts(0, 10.0, communication_ms=4.0, exposed_ms=3.0),)
    profile = a_profile(ranks=ranks)
    assert "Wrap the model" in ExposedCommunication().check(profile).advice
    traced = replace(profile, target_kind="trace", window=a_window(wrapped=True))
    assert "bucket_cap_mb=100" in ExposedCommunication().check(traced).advice


def test_the_step_without_communication_is_the_ceiling_where_it_was_replayed() -> None:
    finding = check(1.0, 2.0, replays=Replays(communication_off=a_share(0.3)))
    assert finding.ceiling is not None
    assert (finding.ceiling.share, finding.ceiling.source) == (0.3, "replay")


def test_just_at_the_threshold_it_passes_with_its_number() -> None:
    finding = check(0.4, 0.6)
    assert finding.state is State.PASSED and finding.title.startswith("5.0 %")
