from typing import Any

import pytest
from builders import a_profile, a_share, an_optimizer

from advisor.advice.advise import advise
from advisor.advice.finding import Finding, Kind, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.replayed import Replays, Share
from advisor.rules import RULES
from advisor.rules.needless_groups import NeedlessGroups


def check(optimizer_ms: float, groups: int, distinct: int, **facts: Any) -> Finding:
    optimizer = an_optimizer(
        groups=groups, distinct_groups=distinct, fused=True, location=Location("train.py", 4)
    )
    profile = a_profile(phases_ms={"optimizer": optimizer_ms}, optimizers=(optimizer,), **facts)
    return NeedlessGroups().check(profile)


def test_a_group_for_each_parameter_is_told_with_how_many_are_needed() -> None:
    finding = check(4.0, 100, 4)
    assert (finding.kind, finding.severity, finding.location) == (
        Kind.WASTE,
        Severity.HIGH,
        Location("train.py", 4),
    )
    assert finding.title == "40 % of each step updates 100 groups of parameters with 4 different settings"
    assert "4 instead of 100" in finding.advice and "fused" not in finding.advice


def test_only_the_part_of_the_update_that_needless_groups_take_could_go() -> None:
    finding = check(4.0, 40, 10, replays=Replays(optimizer_off=a_share(0.4)))
    assert finding.ceiling is not None
    assert finding.ceiling.source == "replay"
    assert finding.ceiling.share == pytest.approx(0.3)


@pytest.mark.parametrize(("high", "source"), [(0.6, "timeline"), (0.3, "replay")])
def test_a_replay_that_holds_nothing_and_the_timed_share_too_tells_nothing(high: float, source: str) -> None:
    finding = check(4.0, 100, 4, replays=Replays(optimizer_off=Share(0.2, 0.0, high)))
    assert finding.fired is (source == "timeline")
    assert finding.ceiling is None or finding.ceiling.source == source


def test_as_many_groups_as_settings_are_needed() -> None:
    assert check(4.0, 100, 95).state is State.PASSED
    assert check(4.0, 2, 2).title == "2 groups of parameters with 2 different settings"


def test_a_cheap_update_passes() -> None:
    assert check(0.4, 100, 4).state is State.PASSED


def test_it_stands_before_the_forms_that_join_parameters_of_one_group_only() -> None:
    slow = an_optimizer(groups=100, distinct_groups=4, parameters=100)
    profile = a_profile(phases_ms={"optimizer": 4.0}, optimizers=(slow,))
    told = [finding.rule for finding in advise(profile, RULES) if finding.fired]
    assert told[0] == "needless_groups" and {"single_tensor_optimizer", "optimizer_bound"} <= set(told)
    assert "fused=True" in NeedlessGroups().check(profile).advice
