import pytest
from builders import a_profile, a_root, a_share

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import Location, RankFacts
from advisor.profiles.facts.profile import RunFacts
from advisor.profiles.facts.replayed import Replays
from advisor.rules.repeated_allreduce import RepeatedAllreduce

HERE = Location("train.py", 12)


def check(times: float | None, backwards: float = 4.0, replays: Replays | None = None) -> Finding:
    ranks = tuple(RankFacts(rank, 10.0, exposed_ms=2.0, parameters_reduced=times) for rank in range(2))
    return RepeatedAllreduce().check(
        a_profile(
            ranks=ranks,
            run=RunFacts(backwards_per_step=backwards),
            roots=(a_root(parallel="DistributedDataParallel", location=HERE),),
            replays=replays or Replays(),
        )
    )


def test_the_spare_part_of_the_communication_is_the_ceiling() -> None:
    finding = check(4.0)
    assert finding.title == "4.0 times the gradients are reduced per update"
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.2 * 3 / 4)
    assert (finding.severity, finding.location) == (Severity.MEDIUM, HERE)
    assert "`with model.no_sync():`" in finding.advice and finding.knobs == ("no_sync",)


def test_the_replay_gives_the_communication_where_there_is_one() -> None:
    finding = check(4.0, replays=Replays(communication_off=a_share(0.4)))
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.3)
    assert finding.ceiling.source == "replay"


def test_repetition_without_accumulation_is_no_case_for_no_sync() -> None:
    finding = check(2.0, backwards=1.0)
    assert "all_reduce(parameter.grad)" in finding.advice and finding.knobs == ()


def test_once_and_some_metrics_are_right() -> None:
    assert check(1.2).state is State.PASSED


def test_without_ranks_or_bytes_nothing_is_said() -> None:
    assert check(None).state is State.NOT_APPLICABLE
