"""A live knob that was refused beside one setting is asked again once another stands there."""

from typing import Any, ClassVar, cast

import pytest
from builders import a_run
from torch.optim import Optimizer

from advisor.tuners.knob import Knob, Refused, Semantics


class Plain(Knob[str]):
    """Something to switch."""

    semantics = Semantics.EXACT
    live = True
    on: ClassVar[bool] = False

    def values(self) -> list[str]:
        return ["off", "on"]

    def process(self, value: str) -> None:
        type(self).on = value == "on"


class Picky(Knob[str]):
    """Acts whenever gradients are cleared, but only beside the other one."""

    semantics = Semantics.EXACT

    def __init__(self, live: bool) -> None:
        self.live = live  # type: ignore[misc]  # of the class elsewhere

    def values(self) -> list[str]:
        return ["off", "on"]

    def clear(self, optimizer: Any, value: str) -> None:
        if not Plain.on:
            raise Refused("the other one is off")


BOTH: dict[str, int | str] = {"plain": "on", "picky": "on"}
ALONE: dict[str, int | str] = {"plain": "off", "picky": "on"}


@pytest.mark.parametrize("live", [True, False])
def test_a_refusal_beside_one_setting_is_none_beside_another(live: bool) -> None:
    run, optimizer = a_run(plain=Plain(), picky=Picky(live)), cast(Optimizer, None)
    run.configure(BOTH)
    run.process()
    run.clear(optimizer)
    assert run.applied == {"plain", "picky"}
    run.configure(ALONE)
    run.clear(optimizer)
    assert run.refused == {"picky": "the other one is off"} and not run.unanswered()
    run.configure(BOTH)
    run.clear(optimizer)
    assert ("picky" in run.applied) is live  # what cannot be switched has declined for good
    assert ("picky" in run.refused) is not live and not run.unanswered()
