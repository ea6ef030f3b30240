from dataclasses import replace
from typing import Any

from builders import a_profile, a_root, a_window, an_op

from advisor.advice.advise import advise
from advisor.advice.finding import Finding, Kind, Severity, State
from advisor.profiles.facts.observed import Location, RankFacts
from advisor.profiles.facts.profile import Profile
from advisor.rules import RULES
from advisor.rules.small_collectives import SmallCollectives

LINE = Location("train.py", 24, "average")


def exchanging(calls: float, elements: int, exposed_ms: float = 5.0, **facts: Any) -> Profile:
    ranks = tuple(RankFacts(rank, 10.0, 5.0, exposed_ms, exposed_ms=exposed_ms) for rank in range(2))
    ops = (
        an_op("c10d::allreduce_", calls=calls, shapes=((elements,), ()), location=LINE, phase="other"),
        an_op("c10d::barrier", 0.1, calls=1.0, phase="other"),
    )
    phases = {"forward": 2.0, "backward": 3.0, "other": 5.0}
    return a_profile(phases_ms=phases, ranks=ranks, window=a_window(*ops), roots=(a_root(),), **facts)


def check(calls: float, elements: int, exposed_ms: float = 5.0) -> Finding:
    return SmallCollectives().check(exchanging(calls, elements, exposed_ms))


def test_gradients_averaged_one_by_one_are_counted_with_their_line() -> None:
    finding = check(200, 4096)
    assert (finding.kind, finding.severity, finding.location) == (Kind.WASTE, Severity.HIGH, LINE)
    assert "200 exchanges between ranks in each step, 4,096 elements" in finding.title
    assert "DistributedDataParallel" in finding.advice and "barrier" in finding.advice


def test_few_or_large_exchanges_pass() -> None:
    assert check(4, 4096).state is State.PASSED
    assert check(200, 10_000_000).state is State.PASSED
    assert check(200, 4096, exposed_ms=0.1).state is State.PASSED


def test_sizes_that_were_not_recorded_are_not_told() -> None:
    profile = exchanging(200, 4096)
    assert profile.window is not None
    unknown = tuple(replace(op, shapes=()) for op in profile.window.ops)
    finding = SmallCollectives().check(replace(profile, window=replace(profile.window, ops=unknown)))
    assert finding.fired and finding.title.endswith(
        "200 exchanges between ranks in each step, of unknown size"
    )


def test_a_single_process_is_not_judged() -> None:
    assert SmallCollectives().check(a_profile()).state is State.NOT_APPLICABLE


def test_nobody_speaks_of_buckets_where_no_model_is_wrapped() -> None:
    told = [finding for finding in advise(exchanging(200, 4096), RULES) if finding.fired]
    assert told[0].rule == "small_collectives"
    assert "low_overlap" not in {finding.rule for finding in told}
    assert not [finding for finding in told if "bucket_cap" in finding.advice or "ddp" in finding.knobs]
