"""How what acts in evaluations alone is compared: by whole intervals from one evaluation to the next.

A step is timed without the evaluations between steps, so it shows nothing of them. Of an interval all counts,
and what is gained is a share of the run, as it is for every other change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from advisor.tuners.failures import Failure, TrialFailed
from advisor.tuners.knob import AnyKnob, Value
from advisor.tuners.measure import Slot

EVALUATION = "evaluation"  # flag of the step before which one ran
LIMIT_S = 30.0  # of a slot
MOST_S = 5.0  # of an interval, so that a slot has room to wait for one evaluation and to reach the next
TIMED_TOGETHER = "timed together with the evaluations between steps"


def flag_between(
    first: Mapping[str, Value] | None, second: Mapping[str, Value] | None, knobs: Mapping[str, AnyKnob]
) -> str | None:
    """The flag between which two configurations are compared; ``None`` where any steps will do."""
    if first is None or second is None:
        return None
    different = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    return EVALUATION if any(hasattr(knobs.get(name), "evaluation") for name in different) else None


def seconds(slot: Slot, message: Mapping[str, Any], between: str | None, by_work: bool) -> float:
    """What a comparison takes of a slot: seconds per step, or per sample where steps differ in their work.

    Where the slot holds whole intervals that is all their time over their steps.

    Raises:
        TrialFailed: ``timeout``; evaluations came, but too late for a whole interval.
    """
    spent_s = slot.mean_s
    if between is not None and not message["all_flagged"]:
        if message["flags"].get(between) and not message["whole"]:
            raise TrialFailed(Failure("timeout", f"no whole interval of evaluation in {2 * LIMIT_S:.0f} s"))
        whole = [*message["wall_ns"], *message["flagged_ns"]]
        spent_s = sum(whole) / len(whole) / 1e9
    return spent_s / slot.work if by_work else spent_s


def of_steps_alone(slots: Sequence[Slot]) -> list[Slot]:
    """The slots without their CPU time, which is that of the steps and would be taken for the interval's."""
    return [replace(slot, cpu_s=0.0) for slot in slots]
