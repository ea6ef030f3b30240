"""Errors that several places raise in the same words."""

import pytest

from advisor.base.errors import NoValidTrial


@pytest.mark.parametrize(
    ("causes", "own", "told"),
    [
        (["non_finite", "oom_device"], True, True),
        (["non_finite"], False, False),
        (["oom_device"], True, False),
    ],
)
def test_a_loss_that_ends_unchanged_as_well_is_no_candidates_fault(
    causes: list[str], own: bool, told: bool
) -> None:
    error = NoValidTrial.of_causes(causes, "train", where="logs", own_loss_ends=own)
    assert error.hint is not None and error.hint.endswith("`advisor report train` lists them with their logs")
    assert ("the unchanged program's loss becomes NaN or infinite too" in error.hint) is told


def test_each_cause_is_named_once() -> None:
    error = NoValidTrial.of_causes(["user_error", "oom_host", "user_error"], "train")
    assert error.message == "all 3 trials failed: oom_host, user_error"
    assert error.exit_code == 4
