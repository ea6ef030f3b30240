"""Studies as JSON lines: the rows of our tables, each checked, so that a file is stored whole or not at all.

The first line names the version. Then each study: its rows table by table, Optuna's study and trials, and a
line that counts them, by which a file that was cut off is told. What belongs to one machine alone, such as
who runs a trial, is left out.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from advisor import lease_tables, tables
from advisor.contract import check_study_name
from advisor.errors import UsageError, clean
from advisor.result import ResultData, Trial

EXPORT_VERSION = 1
MAX_LINE_BYTES = 64 * 2**20
MAX_BYTES = 2**28
MAX_LINES = 2_000_000
INTEGER = 2**31
PREFIX = "advisor_"
STATUSES = ("complete", "interrupted", "failed")
LEFT_OUT = frozenset(("worker", "study"))  # of a row; the study stands beside it

# In the order in which rows may be inserted. Each has a column ``study``, but the first two.
EXPORTED: tuple[sa.Table, ...] = (
    tables.studies, tables.machines, tables.profiles, tables.trials, tables.comparisons, tables.results,
    lease_tables.groups, lease_tables.leases,
)  # fmt: skip
BY_NAME = {table.name.removeprefix(PREFIX): table for table in EXPORTED}


@dataclass
class StudyLines:
    """One study as a file holds it: rows by table, and Optuna's studies with their trials."""

    name: str
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in BY_NAME})
    optuna: list[dict[str, Any]] = field(default_factory=list)
    lines: int = 0
    keys: set[tuple[Any, ...]] = field(default_factory=set)


def columns(table: sa.Table) -> list["sa.Column[Any]"]:
    """The columns that are exported: not the number that the database gives a row."""
    return [column for column in table.columns if column.name not in LEFT_OUT and column.name != "id"]


def header(advisor: str) -> str:
    """The first line of a file."""
    return line({"advisor_export": EXPORT_VERSION, "advisor": advisor})


def line(document: Mapping[str, Any]) -> str:
    """A document as one line."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n"


def written(study: StudyLines) -> Iterator[str]:
    """The lines of a study, its own row first."""
    count = 0
    for name, rows in study.rows.items():
        for row in rows:
            count += 1
            yield line({"study": study.name, "table": name, "row": row})
    for one in study.optuna:
        count += 1
        yield line({"study": study.name, "optuna": one})
    yield line({"study": study.name, "end": count})


def check_header(document: Any, where: str) -> None:
    """Refuse what is no export, or one of a later version.

    Raises:
        UsageError: It is.
    """
    if not isinstance(document, dict) or not isinstance(document.get("advisor_export"), int):
        raise UsageError(f"{where} is not an export of advisor", hint="`advisor studies export > FILE`")
    if document["advisor_export"] > EXPORT_VERSION:
        raise UsageError(
            f"{where} has export version {document['advisor_export']} and was made by advisor "
            f"{clean(str(document.get('advisor')), 40)}, this reads version {EXPORT_VERSION}",
            hint="`pip install --upgrade torch-advisor`",
        )


def parsed(content: bytes) -> Any:
    """A line as JSON.

    Raises:
        ValueError: It is none, or holds what JSON does not have.
    """
    if len(content) > MAX_LINE_BYTES:
        raise ValueError(f"longer than {MAX_LINE_BYTES // 2**20} MiB")
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}") from None


def take(studies: dict[str, StudyLines], document: Any) -> None:
    """Add what a line says to the study it names.

    Raises:
        ValueError: It says nothing that can be stored.
    """
    name = document.get("study") if isinstance(document, dict) else None
    if not isinstance(name, str):
        raise ValueError("names no study")
    try:
        check_study_name(name)
    except UsageError as error:
        raise ValueError(error.message) from None
    study = studies.setdefault(name, StudyLines(name))
    if "end" in document:
        if document["end"] != study.lines:
            raise ValueError(f"study '{name}' ends after {study.lines} lines, not {document['end']!r:.20}")
        study.lines = -1
        return
    if study.lines < 0:
        raise ValueError(f"study '{name}' has ended already")
    study.lines += 1
    if "optuna" in document:
        study.optuna.append(_object(document["optuna"], "optuna"))
        return
    table = document.get("table")
    if table not in BY_NAME:
        raise ValueError(f"there is no table {clean(repr(table), 40)}")
    row = _row(BY_NAME[table], _object(document.get("row"), "row"))
    _check_meaning(table, row, study)
    study.rows[table].append(row)


def unfinished(studies: Sequence[StudyLines]) -> list[str]:
    """Names of studies without a last line or without a row of their own."""
    return [study.name for study in studies if study.lines >= 0 or not study.rows["studies"]]


def _row(table: sa.Table, given: dict[str, Any]) -> dict[str, Any]:
    """The values of a row, each of the kind of its column; only optional ones may be missing."""
    known = {column.name: column for column in columns(table)}
    for name in given:
        if name not in known:
            raise ValueError(f"there is no column {clean(repr(name), 40)}")
    row = {}
    for name, column in known.items():
        value = given.get(name)
        if value is None and not column.nullable:
            raise ValueError(f"{name} is missing")
        if value is not None:
            _check_kind(name, column.type, value)
        row[name] = value
    return row


def _check_kind(name: str, kind: "sa.types.TypeEngine[Any]", value: Any) -> None:
    fits = True
    if isinstance(kind, sa.JSON):
        fits = isinstance(value, dict | list)
    elif isinstance(kind, sa.Boolean):
        fits = isinstance(value, bool)
    elif isinstance(kind, sa.Integer):
        fits = isinstance(value, int) and not isinstance(value, bool) and -INTEGER <= value < INTEGER
    elif isinstance(kind, sa.Float):
        fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
    elif isinstance(kind, sa.String):
        long = isinstance(value, str) and kind.length is not None and len(value) > kind.length
        fits = isinstance(value, str) and not long and not re.search(r"[\x00\ud800-\udfff]", value)
    if not fits:
        raise ValueError(f"{name} cannot be {clean(repr(value), 40)}")


def _check_meaning(table: str, row: dict[str, Any], study: StudyLines) -> None:
    """What only the program that reads it later would notice."""
    try:
        if table == "studies":
            if study.rows["studies"] or row["name"] != study.name:
                raise ValueError(f"study '{study.name}' has another row")
            if row["status"] not in STATUSES:
                raise ValueError(f"status cannot be {clean(repr(row['status']), 40)}")
            datetime.fromisoformat(row["created"])
        elif table == "trials":
            trial = Trial.model_validate(row["data"])
            if trial.number != row["number"]:
                raise ValueError(f"number {row['number']} holds trial {trial.number}")
        elif table == "results":
            result = ResultData.model_validate(row["data"])
            if result.recommendation.verdict != row["verdict"]:
                raise ValueError(f"the verdict is {result.recommendation.verdict}")
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{clean(place, 60)}: {first['msg']}") from None
    if BY_NAME[table] is tables.comparisons:  # the database numbers them
        return
    key = [row[column.name] for column in BY_NAME[table].primary_key if column.name in row]
    if (table, *key) in study.keys:
        raise ValueError(f"{table} has the row {clean(str(key), 60)} already")
    study.keys.add((table, *key))


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
