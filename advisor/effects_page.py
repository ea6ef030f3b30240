"""What a report shows of the effects of knobs: slices, all trials at once, importance."""

from collections.abc import Mapping
from dataclasses import dataclass

from advisor import wording
from advisor.charts import MOST_POINTS, Chart
from advisor.coordinates_chart import MOST_AXES, coordinates
from advisor.effects import FEWEST_TRIALS, Spread, importance, measured_trials, slices
from advisor.result import ResultData
from advisor.slice_chart import slice_chart
from advisor.wording import shown

MOST_SLICES = 12
MOST_NAME = 60
ASSOCIATION = (
    "Other settings differ too between these trials, so this is an association in this search, not the "
    "effect of one knob; contributions in the table of changes are measured apart."
)
LINES = (
    "Solid: faster than the baseline. Dashed: slower. Dotted: no clear difference. Thick: the recommended "
    "setting."
)
BANDS = "Blue: the middle half of the best quarter of the trials. Grey: the middle half of the others."


@dataclass(frozen=True)
class EffectsPart:
    """Everything a page shows of the effects of knobs.

    Attributes:
        slices: Name of the knob with its drawing.
        importance: Name of the knob with its share, empty with too few trials.
        few: Why there is no importance, empty where there is.
    """

    slices: list[tuple[str, Chart]]
    more: str
    coordinates: Chart | None
    coordinates_note: str
    importance: list[tuple[str, str]]
    few: str
    note: str = ASSOCIATION


def effects(result: ResultData, prefix: str = "") -> EffectsPart | None:
    """The effects of knobs; ``None`` where no knob was measured with two values.

    Args:
        result: What ``tune`` found.
        prefix: Put before every id in a drawing.
    """
    found = slices(result)
    if not found:
        return None
    trials = measured_trials(result.trials)
    chosen = result.recommendation.config if result.recommendation.verdict == "change" else None
    lines = coordinates(f"{prefix}coordinates", trials, found, chosen)
    few = ""
    if len(trials) < FEWEST_TRIALS:
        few = (
            f"Importance is shown from {FEWEST_TRIALS} completed trials on; there are {len(trials)} with a "
            "ratio to the baseline."
        )
    return EffectsPart(
        slices=[
            (knob_name(knob), slice_chart(f"{prefix}slice-{at}", knob_name(knob), spreads))
            for at, (knob, spreads) in enumerate(_first(found).items())
        ],
        more=_more(found),
        coordinates=lines,
        coordinates_note=_note(len(found), bands=len(trials) > MOST_POINTS),
        importance=[(knob_name(knob), wording.percent(share)) for knob, share in importance(result).items()],
        few=few,
    )


def knob_name(knob: str) -> str:
    """As it is shown."""
    return shown(knob, MOST_NAME) or "(unnamed)"


def _first(found: Mapping[str, list[Spread]]) -> dict[str, list[Spread]]:
    return dict(list(found.items())[:MOST_SLICES])


def _more(found: Mapping[str, list[Spread]]) -> str:
    left = [knob_name(knob) for knob in list(found)[MOST_SLICES:]]
    return f"Not drawn: {', '.join(left)}." if left else ""


def _note(knobs: int, *, bands: bool) -> str:
    text = BANDS if bands else LINES
    if knobs > MOST_AXES:
        text += f" The {MOST_AXES} settings that were changed most are drawn, of {knobs}."
    return text
