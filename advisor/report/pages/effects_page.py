"""What a report shows of the effects of knobs: the importance of each in the search."""

from dataclasses import dataclass

from advisor.report.effects import FEWEST_TRIALS, importance, measured_trials, slices
from advisor.result import wording
from advisor.result.document import ResultData
from advisor.result.wording import shown

MOST_NAME = 60
ASSOCIATION = (
    "Other settings differ too between these trials, so this is an association in this search, not the "
    "effect of one knob; contributions in the table of changes are measured apart."
)


@dataclass(frozen=True)
class EffectsPart:
    """Everything a page shows of the effects of knobs.

    Attributes:
        importance: Name of the knob with its share, empty with too few trials.
        few: Why there is no importance, empty where there is.
    """

    importance: list[tuple[str, str]]
    few: str
    note: str = ASSOCIATION


def effects(result: ResultData) -> EffectsPart | None:
    """The effects of knobs; ``None`` where no knob was measured with two values."""
    if not slices(result):
        return None
    trials = measured_trials(result.trials)
    few = ""
    if len(trials) < FEWEST_TRIALS:
        few = (
            f"Importance is shown from {FEWEST_TRIALS} completed trials on; there are {len(trials)} with a "
            "ratio to the baseline."
        )
    return EffectsPart(
        [(knob_name(knob), wording.percent(share)) for knob, share in importance(result).items()], few
    )


def knob_name(knob: str) -> str:
    """As it is shown."""
    return shown(knob, MOST_NAME) or "(unnamed)"
