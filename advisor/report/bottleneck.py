"""Where the bottleneck moved: the largest part of a step before and after, and what is left to gain there."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from advisor.report.charts.charts import phase_words
from advisor.result import wording
from advisor.result.document import Interval, ProfileSummary
from advisor.result.wording import shown

REPLAYS = {
    "loader_free": "one cached batch in place of the loader",
    "forward_only": "no backward and no update",
    "optimizer_off": "no update",
    "communication_off": "no communication",
    "debug_off": "no anomaly detection",
    "evaluation_without_graph": "evaluation without recording a graph",
    "double_batch": "a batch of twice the size",
    "half_batch": "a batch of half the size",
}
RATIOS = ("double_batch", "half_batch")


@dataclass(frozen=True)
class Moved:
    """``said`` in a sentence; ``replays`` are what leaving a part out gave before and after.

    ``doubt`` says that the two profiles do not show the gain that was confirmed, or is empty.
    """

    said: str
    doubt: str
    replays: list[tuple[str, str, str]]


def moved(summary: ProfileSummary, gain: Interval | None = None) -> Moved | None:
    """What the profile of the recommended setting says beside that of the baseline; ``None`` without one.

    Args:
        summary: Of both profiles.
        gain: Of the step, as it was confirmed; ``None`` where a step does something else than before.
    """
    before, after = summary.phases_ms, summary.phases_after_ms
    if not after or not any(after.values()):
        return None
    rows = [
        (
            REPLAYS.get(name, shown(name, 80)),
            replayed(name, summary.replays.get(name)),
            replayed(name, summary.replays_after.get(name)),
        )
        for name in dict.fromkeys([*summary.replays, *summary.replays_after])
    ]
    return Moved(_said(before, after), _doubt(before, after, gain), rows)


def _doubt(before: Mapping[str, float], after: Mapping[str, float], gain: Interval | None) -> str:
    """Half of the gain must show: profiles are single runs, and noisier than the comparison."""
    seen = sum(before.values()) / sum(after.values())
    if gain is None or gain.low <= 1 or seen >= math.sqrt(gain.low):
        return ""
    return "These two do not show half of the gain that was confirmed: they do not tell where it comes from."


def _said(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    then, now = _largest(before), _largest(after)
    if then is None or now is None:
        return "The parts of the step before the change are not known."
    if then == now:
        return (
            f"The largest part is the same: {phase_words(now)} takes {_of(now, before)} before and "
            f"{_of(now, after)} after."
        )
    return (
        f"Before, the largest part is {phase_words(then)}: {_of(then, before)}. After, it is "
        f"{phase_words(now)}: {_of(now, after)}; {phase_words(then)} takes {_of(then, after)} there."
    )


def _of(phase: str, phases_ms: Mapping[str, float]) -> str:
    spent, total = phases_ms.get(phase, 0.0), sum(phases_ms.values())
    return (
        f"{wording.share_of(spent, total)} of the step ({wording.plain(spent)} of {wording.plain(total)} ms)"
    )


def _largest(phases_ms: Mapping[str, float]) -> str | None:
    present = {phase: spent for phase, spent in phases_ms.items() if spent > 0}
    return max(present, key=lambda phase: present[phase]) if present else None


def replayed(name: str, share: Interval | None) -> str:
    """What leaving a part out gave, or what another batch size takes."""
    if share is None:
        return wording.MISSING
    if name in RATIOS:
        return f"time of a step: {wording.short_ratio(share)}"
    low, high = wording.percent(share.low), wording.percent(share.high)
    return f"{wording.percent(share.estimate)} of the step goes ({low} to {high})"
