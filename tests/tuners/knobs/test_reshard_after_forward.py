from builders import a_profile

from advisor.tuners.knob import Change, Semantics
from advisor.tuners.knobs.reshard_after_forward import ReshardAfterForward


def test_giving_parameters_up_comes_first() -> None:
    knob = ReshardAfterForward()
    assert knob.choices(a_profile()) == ["on", "off"]
    assert knob.present(a_profile()) == "on"
    assert knob.parse("off") == "off"


def test_it_acts_under_fsdp_only_and_changes_no_number() -> None:
    assert ReshardAfterForward.strategies == ("fsdp",)
    assert ReshardAfterForward.semantics is Semantics.EXACT


def test_what_the_user_writes() -> None:
    assert ReshardAfterForward().change("off") == Change("fully_shard(..., reshard_after_forward=False)")
