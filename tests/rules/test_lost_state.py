from typing import Any

from builders import a_loader, a_profile

from advisor.advice.advise import advise
from advisor.advice.finding import Finding, Kind, Severity, State
from advisor.rules import RULES
from advisor.rules.lost_state import LostState


def check(**facts: Any) -> Finding:
    return LostState().check(a_profile(loader=a_loader(**facts)))


def test_a_cache_that_ends_with_the_workers_of_an_epoch_is_named() -> None:
    finding = check(num_workers=2, items_change="dataset.decoded", items_cached=True)
    assert (finding.kind, finding.severity) == (Kind.WASTE, Severity.MEDIUM)
    assert finding.title == (
        "2 workers fill `dataset.decoded` with what items need, and lose it at the end of each epoch"
    )
    assert "persistent_workers=True" in finding.advice and finding.knobs == ("persistent_workers",)


def test_workers_that_stay_keep_it() -> None:
    facts: dict[str, Any] = {"num_workers": 2, "items_change": "dataset.decoded", "items_cached": True}
    assert check(**facts, persistent_workers=True).state is State.PASSED


def test_a_counter_is_told_low_and_so_is_a_cache_before_there_are_workers() -> None:
    counter = check(num_workers=2, items_change="dataset.seen")
    assert counter.severity is Severity.LOW and "copies" in counter.title
    assert check(items_change="dataset.decoded", items_cached=True).severity is Severity.LOW


def test_items_that_change_nothing_pass() -> None:
    assert check(num_workers=2).state is State.PASSED
    assert LostState().check(a_profile()).state is State.NOT_APPLICABLE


def test_a_lost_cache_stands_before_the_slow_items_that_it_explains_and_a_counter_does_not() -> None:
    def told(cached: bool) -> list[str]:
        loader = a_loader(
            num_workers=2, items_change="dataset.kept", items_cached=cached, item_ms=1.0, collate_ms=0.01
        )
        phases = {"input_wait": 12.0, "forward": 1.0, "backward": 1.0}
        profile = a_profile(phases_ms=phases, loader=loader)
        return [finding.rule for finding in advise(profile, RULES) if finding.fired]

    assert told(True)[0] == "lost_state" and "slow_item" in told(True)
    assert told(False)[0] == "slow_item" and "lost_state" in told(False)
