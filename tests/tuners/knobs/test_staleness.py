import pytest
from builders import a_profile

from advisor.tuners.knob import Change, Semantics
from advisor.tuners.knobs.staleness import Staleness
from advisor.tuners.strategies.parameter_server import ParameterServer


def test_waiting_for_all_workers_is_the_present_setting() -> None:
    assert Staleness().choices(a_profile()) == ["0", "1", "4", "16", "unbounded"]
    assert Staleness().present(a_profile()) == Staleness.default
    assert ParameterServer().meaning({"staleness": Staleness.default}) is Semantics.ROUNDING


def test_bounds_are_spelt_as_they_are() -> None:
    assert Staleness().parse("16") == "16"
    with pytest.raises(ValueError, match="'2' is not one of"):
        Staleness().parse("2")


def test_it_changes_what_is_learnt_so_it_is_tried_only_by_name() -> None:
    assert Staleness.named_only and Staleness.opt_in
    assert Staleness.semantics is Semantics.TRAINING
    assert Staleness.strategies == ("parameter_server",)


@pytest.mark.parametrize(("value", "written"), [("4", "4"), ("unbounded", "None")])
def test_what_the_user_writes(value: str, written: str) -> None:
    assert Staleness().change(value) == Change(f"KeyValueServer(..., staleness={written})")
