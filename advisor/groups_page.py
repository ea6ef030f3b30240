"""Groups of workers side by side: machine, baseline and best trial of each; never one beside another's."""

from dataclasses import dataclass

from advisor import wording
from advisor.result import Group, ResultData

SHOWN = 12  # characters of a fingerprint
HEADINGS = ("group", "machine", "baseline step", "trials", "failed", "best against its own baseline", "with")


@dataclass(frozen=True)
class GroupRow:
    """One group, as text."""

    fingerprint: str
    machine: str
    baseline: str
    trials: str
    failed: str
    best: str
    settings: str

    @property
    def cells(self) -> tuple[str, ...]:
        """In the order of ``HEADINGS``."""
        return (
            self.fingerprint, self.machine, self.baseline, self.trials, self.failed, self.best, self.settings,
        )  # fmt: skip


def group_rows(result: ResultData) -> list[GroupRow]:
    """A row for each group; none for a study of one tuner."""
    return [_row(group) for group in result.groups]


def lines(result: ResultData) -> list[str]:
    """The groups for a terminal."""
    return [
        f"Group {row.fingerprint} ({row.machine}): {row.baseline} a step, {row.trials} trials, "
        f"best {row.best}" + (f" with {row.settings}" if row.settings else "")
        for row in group_rows(result)
    ]


def _row(group: Group) -> GroupRow:
    best = group.best
    return GroupRow(
        fingerprint=wording.shown(group.fingerprint[:SHOWN]),
        machine=wording.shown(group.machine),
        baseline="not known" if group.baseline is None else wording.interval(group.baseline.step_ms, "ms"),
        trials=str(group.trials),
        failed=str(group.failed),
        best="none above it" if best is None else wording.ratio(best.against_baseline),
        settings=_settings(group),
    )


def _settings(group: Group) -> str:
    """What the best trial changes."""
    if group.best is None:
        return ""
    own = group.baseline.config if group.baseline else {}
    return ", ".join(
        f"{wording.shown(name)}={wording.shown(value)}"
        for name, value in group.best.config.items()
        if value != own.get(name)
    )
