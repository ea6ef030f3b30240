from typing import Any

from builders import a_loader, a_profile

from advisor.advice.finding import Finding, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile
from advisor.rules.input_bound import InputBound
from advisor.rules.piped_items import PipedItems
from advisor.rules.slow_item import SlowItem
from advisor.rules.slow_storage import SlowStorage

LINE = Location("data.py", 20, "__getitem__")


def a_fed_profile(told: int, wait_ms: float = 5.0, **facts: Any) -> Profile:
    """Two workers, whose items mostly wait."""
    made = {"item_ms": 1.0, "collate_ms": 0.5, "cpu_share": 0.2, "item_read_bytes": 0, "num_workers": 2}
    loader = a_loader(**{**made, "item_told_bytes": told, "slow_line": LINE, **facts})
    return a_profile(phases_ms={"input_wait": wait_ms}, loader=loader)


def check(told: int, **facts: Any) -> Finding:
    return PipedItems().check(a_fed_profile(told, **facts))


def test_items_of_a_managers_process_are_told_before_what_they_cost() -> None:
    finding = check(48 * 1024)
    assert finding.title.startswith(
        "50 % of each step waits for items of which 48 KiB each come from another"
    )
    assert finding.location == LINE and "share_memory_()" in finding.advice
    profile = a_fed_profile(48 * 1024)
    assert SlowItem().check(profile).state is State.PASSED
    assert SlowStorage().check(profile).state is State.PASSED
    assert "workers" not in InputBound().check(profile).advice


def test_items_that_are_at_hand_pass() -> None:
    assert check(0).title == "0 KiB of each item come through a pipe"
    assert check(100).state is State.PASSED


def test_what_nobody_waits_for_passes() -> None:
    assert check(48 * 1024, wait_ms=0.1).state is State.PASSED
    assert PipedItems().check(a_profile()).state is State.NOT_APPLICABLE
