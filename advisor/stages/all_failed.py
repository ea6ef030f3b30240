"""Runs of which no trial came to its end: whether that says anything against the program."""

from collections.abc import Sequence
from pathlib import Path

from advisor.base.errors import NoValidTrial
from advisor.result.document import Trial
from advisor.result.wording import DISTURBED
from advisor.tuners.supervision.failures import DISRUPTIONS, NO_ROOM

NO_TIME = "the budget left no time to try a change; give a longer --budget"
NOT_TOLD = f"{DISTURBED}; a quieter machine or a longer --budget tells more"


def why_undecided(tried: Sequence[Trial]) -> str:
    """Why no trial says anything, where other load or the budget cut off all of them; else empty.

    Args:
        tried: All trials but the baseline.
    """
    if not tried or any(trial.state != "failed" for trial in tried):
        return ""
    if any(trial.message.startswith(NO_ROOM) for trial in tried):
        return NO_TIME
    return NOT_TOLD if all(trial.cause == "interference" for trial in tried) else ""


def refuse_if_all_failed(tried: Sequence[Trial], study: str, folder: Path, *, own_loss_ends: bool) -> None:
    """End a run whose trials all failed by themselves.

    Args:
        tried: All trials but the baseline.
        study: Their study's name.
        folder: Where their logs lie.
        own_loss_ends: A loss of the unchanged program was NaN or infinite.

    Raises:
        NoValidTrial: With the causes.
    """
    if not tried or any(trial.state != "failed" for trial in tried) or why_undecided(tried):
        return
    if not any(trial.cause in DISRUPTIONS for trial in tried):
        causes = [str(trial.cause) for trial in tried]
        raise NoValidTrial.of_causes(causes, study, where=str(folder), own_loss_ends=own_loss_ends)
