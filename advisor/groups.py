"""Groups of workers as a report shows them: side by side, each with its own baseline and best trial."""

from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from advisor.database import Database
from advisor.errors import clean
from advisor.lease_tables import groups, leases
from advisor.result import Baseline, Group, Trial


def read_groups(database: Database, study: str) -> list[Group]:
    """The groups of a study, by fingerprint; none where no worker ever took part."""
    with database.reading() as connection:
        rows = connection.execute(
            sa.select(groups).where(groups.c.study == study).order_by(groups.c.fingerprint)
        ).all()
        ended = connection.execute(
            sa.select(leases.c.fingerprint, leases.c.state, leases.c.data).where(
                leases.c.study == study, leases.c.state.not_in(("queued", "running"))
            )
        ).all()
    return [
        Group(
            fingerprint=clean(row.fingerprint),
            machine=clean(row.machine),
            baseline=_baseline(row.baseline),
            trials=sum(one.fingerprint == row.fingerprint for one in ended),
            failed=sum(one.fingerprint == row.fingerprint and one.state == "failed" for one in ended),
            best=_best([one.data for one in ended if one.fingerprint == row.fingerprint]),
        )
        for row in rows
    ]


def group_trials(database: Database, study: str, fingerprint: str) -> list[Trial]:
    """All trials of a group that ended, by number."""
    query = (
        sa.select(leases.c.data)
        .where(
            leases.c.study == study, leases.c.fingerprint == fingerprint,
            leases.c.state.not_in(("queued", "running")),
        )
        .order_by(leases.c.number)
    )  # fmt: skip
    with database.reading() as connection:
        found = [_trial(data) for data in connection.execute(query).scalars()]
    return [trial for trial in found if trial is not None]


def best_of(trials: list[Trial]) -> Trial | None:
    """The complete trial that is furthest above the baseline, if one is above it."""
    above = [
        (trial.against_baseline.estimate, -trial.number, trial)
        for trial in trials
        if trial.state == "complete" and trial.against_baseline and trial.against_baseline.estimate > 1
    ]
    return max(above, key=lambda entry: entry[:2])[2] if above else None


def _best(rows: list[Any]) -> Trial | None:
    return best_of([trial for data in rows if (trial := _trial(data)) is not None])


def _trial(data: Any) -> Trial | None:
    """A stored trial; what somebody else wrote there counts for nothing."""
    try:
        return Trial.model_validate(data)
    except ValidationError:
        return None


def _baseline(data: Any) -> Baseline | None:
    try:
        return Baseline.model_validate(data)
    except ValidationError:
        return None
