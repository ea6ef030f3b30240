import pytest
from builders import a_profile

from advisor.tuners.knob import Change, Semantics
from advisor.tuners.knobs.averaging_period import AveragingPeriod
from advisor.tuners.strategies.local_sgd import PERIOD


def test_the_strategys_own_period_comes_first() -> None:
    assert AveragingPeriod().choices(a_profile()) == [PERIOD, 2, 8, 16]
    assert AveragingPeriod().present(a_profile()) == PERIOD == AveragingPeriod.default


def test_periods_are_spelt_as_numbers() -> None:
    assert AveragingPeriod().parse("16") == 16
    with pytest.raises(ValueError, match="'3' is not one of '2', '4', '8', '16'"):
        AveragingPeriod().parse("3")


def test_it_acts_under_local_sgd_only_and_changes_what_is_learnt() -> None:
    assert AveragingPeriod.strategies == ("local_sgd",)
    assert AveragingPeriod.semantics is Semantics.TRAINING


def test_what_the_user_writes() -> None:
    assert AveragingPeriod().change(8) == Change("PeriodicModelAverager(period=8)")
