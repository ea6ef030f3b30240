"""Trials that failed, by what failed."""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.result import wording
from advisor.result.document import Trial
from advisor.result.wording import shown

MOST_ROWS = 2000  # of one cause: the rest is in result.json


@dataclass(frozen=True)
class Failures:
    """All failed trials of one cause."""

    cause: str
    meaning: str
    trials: list[tuple[int, str, str]]


def failures(trials: Sequence[Trial]) -> list[Failures]:
    """Failed trials grouped by cause, the most frequent first."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.state == "failed":
            groups.setdefault(trial.cause or "internal", []).append(trial)
    return [
        Failures(
            cause,
            wording.cause(group[0]),
            [(t.number, shown(t.message, 300), shown(t.log or "", 300)) for t in group[:MOST_ROWS]],
        )
        for cause, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
