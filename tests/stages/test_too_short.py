"""What is said of a program that ends before it could be measured."""

from typing import Any

import pytest

from advisor.base.settings import Settings, TargetRequest
from advisor.stages.target_failures import NEEDED_STEPS, too_short
from advisor.tuners.trial.messages import TrialOutcome


def said(ran: int, **changes: Any) -> str:
    settings = Settings(target=TargetRequest(kind="script", name="train.py"), **changes)
    return too_short(TrialOutcome("ended", steps=ran), settings).message


def test_a_program_without_steps_is_told_so() -> None:
    assert said(0).startswith("no training step found")


@pytest.mark.parametrize(("steps", "needed"), [(None, NEEDED_STEPS), (12, 12)])
def test_fewer_steps_than_needed_are_told_with_both_numbers(steps: int | None, needed: int) -> None:
    assert said(needed - 1, steps=steps) == f"only {needed - 1} steps ran; {needed} are needed"


def test_enough_steps_are_not_called_too_few() -> None:
    told = said(4 * NEEDED_STEPS)
    assert "needed" not in told and f"after {4 * NEEDED_STEPS} steps" in told


def test_a_program_that_its_checkpoint_says_is_complete_is_told_so_with_the_file() -> None:
    settings = Settings(target=TargetRequest(kind="script", name="train.py"))
    error = too_short(TrialOutcome("ended", loaded=("runs/last.pt",)), settings)
    assert "resumed from runs/last.pt" in error.message and error.hint is not None and "afresh" in error.hint
