"""Shares as they are written on a command line, and objectives of one unit."""

import pytest

from advisor.base.errors import UsageError
from advisor.base.settings import objective_of_unit
from advisor.cli.values import max_loss


@pytest.mark.parametrize(("written", "share"), [("1%", 0.01), ("0.02", 0.02), ("50%", 0.5)])
def test_a_tolerated_loss_is_a_share_or_a_percentage(written: str, share: float) -> None:
    assert max_loss(written) == pytest.approx(share)


@pytest.mark.parametrize("written", ["0", "0%", "100%", "3", "much"])
def test_what_is_no_loss_that_can_be_shown_is_refused(written: str) -> None:
    with pytest.raises(UsageError):
        max_loss(written)


def test_a_program_is_checked_in_the_unit_that_it_was_tuned_in() -> None:
    told = [objective_of_unit(name) for name in ("latency", "requests", "memory", "goodput")]
    assert told == ["latency", "requests", "goodput", "goodput"]
