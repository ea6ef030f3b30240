"""Studies from JSON lines into a database: all that a file holds, or nothing.

Every line is checked before the first is stored. Optuna's rows come first, for it commits by itself; ours
make the study, in one transaction.
"""

from dataclasses import dataclass
from typing import BinaryIO

import sqlalchemy as sa

from advisor.contract import check_study_name
from advisor.database import Database
from advisor.errors import UsageError, clean
from advisor.fault_points import hit
from advisor.optuna_lines import check_optuna, unmark, write_optuna
from advisor.study_lines import (
    BY_NAME,
    MAX_BYTES,
    MAX_LINE_BYTES,
    MAX_LINES,
    StudyLines,
    check_header,
    parsed,
    take,
    unfinished,
)
from advisor.tables import machines, studies

MOST_SHOWN = 10
MAX_STUDIES = 1000


@dataclass(frozen=True)
class Imported:
    """A study that is stored now; ``trials`` counts those that ended."""

    name: str
    trials: int


def read_lines(stream: BinaryIO, name: str) -> list[StudyLines]:
    """The studies of a file.

    Args:
        stream: The file, opened for reading bytes.
        name: What messages call it.

    Raises:
        UsageError: It is no export, one of a later version, too large, or lines of it are wrong, which are
            named by number.
    """
    found: dict[str, StudyLines] = {}
    wrong: list[tuple[int, str]] = []
    number, size = 0, 0
    while content := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        size += len(content)
        if size > MAX_BYTES or number > MAX_LINES or len(found) > MAX_STUDIES:
            raise UsageError(
                f"{name} is larger than any export", where=f"{name}:{number}", hint="export fewer studies"
            )
        if number == 1:
            check_header(_first(content), name)
            continue
        try:
            document = parsed(content)
            take(found, document)
            if "optuna" in document:
                check_optuna(found[document["study"]].optuna)
        except ValueError as error:
            wrong.append((number, str(error)))
            if len(content) > MAX_LINE_BYTES:
                break
    if number == 0:
        raise UsageError(f"{name} is empty", hint="`advisor studies export > FILE`")
    if not wrong and (cut_off := unfinished(list(found.values()))):
        wrong.append((number, f"the file ends within study '{cut_off[0]}'"))
    _refuse(wrong, name)
    return list(found.values())


def renamed(found: list[StudyLines], name: str) -> list[StudyLines]:
    """The one study of a file under another name.

    Raises:
        UsageError: There are several, or none.
    """
    if len(found) != 1:
        raise UsageError(f"the file holds {len(found)} studies", where="--study", hint="leave out --study")
    (study,) = found
    study.name = check_study_name(name)
    study.rows["studies"][0]["name"] = name
    return found


def store(database: Database, found: list[StudyLines]) -> None:
    """Store the studies of a file, as ``read_lines`` gave them.

    Raises:
        UsageError: A name is taken.
    """
    names = [study.name for study in found]
    with database.reading() as connection:
        _refuse_taken(connection, names)
    built = [name for study in found for name in write_optuna(database, study.name, study.optuna)]
    hit("import.before")
    with database.writing() as connection:
        _refuse_taken(connection, names)
        for study in found:
            _insert(connection, study)
    hit("import.after")
    unmark(database, built)


def count_of(study: StudyLines) -> Imported:
    """What is told about a study that was stored."""
    return Imported(study.name, sum(row["finished"] for row in study.rows["trials"]))


def _insert(connection: sa.Connection, study: StudyLines) -> None:
    """The rows of one study, those first that others refer to."""
    for name, rows in study.rows.items():
        table = BY_NAME[name]
        for row in rows:
            if (
                table is machines
                and connection.execute(
                    sa.select(machines.c.fingerprint).where(machines.c.fingerprint == row["fingerprint"])
                ).first()
            ):
                continue
            owner = {} if table in (machines, studies) else {"study": study.name}
            connection.execute(table.insert().values({**row, **owner}))


def _refuse_taken(connection: sa.Connection, names: list[str]) -> None:
    taken = set(connection.execute(sa.select(studies.c.name).where(studies.c.name.in_(names))).scalars())
    if taken:
        first, more = min(taken), f" and {len(taken) - 1} more" if len(taken) > 1 else ""
        raise UsageError(
            f"there is a study '{first}' already{more}",
            hint="`--study NAME` imports under another name, `--storage URL` into another database",
        )


def _first(content: bytes) -> object:
    try:
        return parsed(content)
    except ValueError:
        return None


def _refuse(wrong: list[tuple[int, str]], name: str) -> None:
    """All wrong lines at once, the first ones with their reason."""
    if not wrong:
        return
    number, reason = wrong[0]
    if len(wrong) == 1:
        raise UsageError(f"{clean(reason)}; nothing is imported", where=f"{name}:{number}", code="bad_line")
    shown = [f"  line {number}: {clean(reason)}" for number, reason in wrong[:MOST_SHOWN]]
    more = [f"  and {len(wrong) - MOST_SHOWN} more"] if len(wrong) > MOST_SHOWN else []
    raise UsageError(
        "\n".join([f"{len(wrong)} lines are wrong; nothing is imported", *shown, *more]),
        where=f"{name}:{number}",
        code="bad_line",
    )
