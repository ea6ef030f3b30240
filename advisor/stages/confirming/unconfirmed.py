"""What is said where a confirmation did not confirm: also that it ended before it measured anything."""

import math
from collections.abc import Sequence

from advisor.result import wording
from advisor.stages.trials import as_ratio
from advisor.tuners.comparing.looks import LOOKS, MIN_INSTANCES, Decision
from advisor.tuners.comparing.measure import Estimate


def measured(decision: Decision | None) -> Estimate | None:
    """What a confirmation measured; ``None`` where it never began, or ended before its first process did."""
    return None if decision is None or decision.estimate.instances == 0 else decision.estimate


def why_never(disturbed: Sequence[str]) -> str:
    """Why a confirmation measured nothing: the budget ended, with what cut its processes off until then."""
    cause = f" that was not disturbed ({disturbed[-1]})" if disturbed else ""
    return f"the budget ended before its first process{cause}"


def no_room(described: str, gain: float, enough: str) -> str:
    """Why a confirmation was not begun or ended: what it needs at least does not fit into what is left.

    Args:
        described: The changes.
        gain: Log ratio that the search saw.
        enough: Option that leaves room for it.
    """
    seen = f" (about {math.exp(gain):.2f}x in the search)" if gain > 0 else ""
    return (
        f"{described}{seen} {wording.BEYOND_BUDGET}: no time was left to compare its numbers and "
        f"{MIN_INSTANCES} pairs of processes, and to run it longer; {enough} could"
    )


def why(described: str, decision: Decision, min_gain: float, disturbed: Sequence[str] = ()) -> str:
    """Why a nominee is not recommended.

    Args:
        described: Its changes.
        decision: Anything but ``confirmed``.
        min_gain: Relative gain that is asked for.
        disturbed: What cut processes off.
    """
    found = measured(decision)
    if found is None:
        return f"{described} was not confirmed: {why_never(disturbed)}"
    if found.instances == 1:
        return (
            f"{described} gave {found.ratio[0]:.2f}x in one process: the budget ended before there were more"
        )
    told = f"{described}: {wording.short_ratio(as_ratio(found))}"
    threshold = math.log1p(min_gain)
    if found.low > threshold:  # one look of several asks for more than the interval shows
        return f"{told}; the budget ended before there were enough processes to be sure"
    if decision.futile:
        return f"{told}; {wording.HOPELESS} the {wording.percent(min_gain)} that are asked for"
    if found.instances < LOOKS[-1] and found.high > threshold:
        return f"{told}; the budget ended before the confirmation was complete"
    return f"{told}; not above the {wording.percent(min_gain)} that are asked for beyond noise"
