"""Studies out of a database as JSON lines (``advisor.study_lines``), without secrets and home folders."""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from advisor.contract import no_such_study
from advisor.database import Database
from advisor.errors import AdvisorError
from advisor.optuna_lines import read_optuna
from advisor.redaction import redacted
from advisor.study_lines import BY_NAME, StudyLines, columns, header, written
from advisor.tables import machines, studies

IN_OPTUNA_AS_THEY_ARE = ("params", "distributions")


def export(database: Database, names: Sequence[str], *, with_optuna: bool = True) -> Iterator[str]:
    """The lines of a file that holds these studies; of all where none is named.

    Args:
        database: Where they are.
        names: Of studies.
        with_optuna: Also what Optuna knows, which opens the database by its name once more.

    Raises:
        UsageError: There is no such study.
    """
    with database.reading() as connection:
        query = sa.select(studies.c.name).order_by(studies.c.created, studies.c.name)
        known = list(connection.execute(query).scalars())
    for name in names:
        if name not in known:
            raise no_such_study(name, known)
    yield header(version("torch-advisor"))
    for name in names or known:
        yield from written(_read(database, name, with_optuna))


def rescue(database: Database) -> str | None:
    """Write all studies of a file that was removed under us beside where it was, from what is still open.

    Optuna's own rows are lost: what it was told stands in ours too.

    Returns:
        The new file; ``None`` where nothing can be read or written any more.
    """
    path = database.url.path
    if path is None or not database.has_open_connection():
        return None
    folder = path.parent if os.access(path.parent, os.W_OK) else Path(tempfile.gettempdir())
    file = folder / f"{path.stem}-rescued-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.jsonl"
    try:
        lines = list(export(database, (), with_optuna=False))
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.writelines(lines)
            stream.flush()
            os.fsync(descriptor)
    except (AdvisorError, OSError):
        return None
    shown = os.path.relpath(file)
    return str(file) if shown.startswith("..") else shown


def _read(database: Database, name: str, with_optuna: bool) -> StudyLines:
    """All of a study, as it is at one moment, less what Optuna commits by itself."""
    study = StudyLines(name)
    with database.reading() as connection:
        for table_name, table in BY_NAME.items():
            if table is machines:
                continue
            owner = table.c.name if table is studies else table.c.study
            order = [column for column in table.primary_key if column.name != "study"]
            query = sa.select(*columns(table)).where(owner == name).order_by(*order)
            study.rows[table_name] = [dict(row._mapping) for row in connection.execute(query)]
        prints = _fingerprints(study)
        query = sa.select(machines).where(machines.c.fingerprint.in_(prints))
        study.rows["machines"] = [
            dict(row._mapping) for row in connection.execute(query.order_by(machines.c.fingerprint))
        ]
    study.rows = redacted(study.rows)
    for row in study.rows["studies"]:  # nobody runs it where it is read again
        row["status"] = "interrupted" if row["status"] == "running" else row["status"]
    if with_optuna:
        study.optuna = [_without_secrets(line) for line in read_optuna(database, name)]
    return study


def _fingerprints(study: StudyLines) -> list[str]:
    """Of the machines that measured it."""
    found = {str(row["contract"].get("machine_fingerprint", "")) for row in study.rows["studies"]}
    found |= {row["fingerprint"] for row in study.rows.get("groups", ())}
    return sorted(found)


def _without_secrets(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value if key in IN_OPTUNA_AS_THEY_ARE else redacted(value) for key, value in line.items()}
