"""A points file: measurements as CSV, and the places that are asked for in the same columns."""

import csv
import difflib
import math
from collections.abc import Sequence
from pathlib import Path

from advisor.base.errors import UsageError, clean
from advisor.planning.places import Place, Point

NEEDED = ("ranks", "nodes", "local_batch")
OPTIONAL = ("placement", "exposed_communication_ms", "parameters", "bytes_per_step")
KNOWN = (*NEEDED, "step_ms", *OPTIONAL)
EXAMPLE = "the first line names the columns: ranks,nodes,local_batch,step_ms"
MOST_ROWS = 100_000
MOST_RANKS = 10**7

Cells = dict[str, str]


def read_points(path: Path) -> list[Point]:
    """The measurements of a points file; a count may have several rows.

    Raises:
        UsageError: It cannot be read, lacks a column or holds what cannot have been measured; with the line.
    """
    points = []
    for where, cells in _rows(path, ("step_ms",)):
        step = _positive(where, cells, "step_ms")
        exposed = _optional(where, cells, "exposed_communication_ms", zero=True)
        if exposed is not None and exposed > step:
            raise UsageError(
                f"exposed_communication_ms is {exposed:g}, longer than its step of {step:g} ms",
                where=where,
                hint="it is the part of a step in which ranks only communicate",
            )
        parameters = _optional(where, cells, "parameters")
        shared = _optional(where, cells, "bytes_per_step", zero=True)
        points.append(Point(_place(where, cells), step, exposed, parameters, shared))
    return points


def read_places(path: Path) -> list[Place]:
    """The places that a file names, in its order.

    Raises:
        UsageError: As for measurements.
    """
    return [_place(where, cells) for where, cells in _rows(path, ())]


def _rows(path: Path, more: Sequence[str]) -> list[tuple[str, Cells]]:
    """Each row with the place that a message names."""
    name = clean(str(path))
    try:
        with path.open(newline="", encoding="utf-8-sig") as opened:
            lines = list(csv.reader(opened, skipinitialspace=True))
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file") from None
    except OSError as error:
        raise UsageError(f"cannot read {name}", cause=clean(error.strerror or str(error))) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{name} is not a CSV file", cause=clean(str(error)), hint=EXAMPLE) from None
    if not lines or not any(cell.strip() for line in lines for cell in line):
        raise UsageError(f"{name} is empty", hint=EXAMPLE)
    header = [cell.strip() for cell in lines[0]]
    _check_header(name, header, more)
    rows = []
    for number, line in enumerate(lines[1:], 2):
        if not any(cell.strip() for cell in line):
            continue
        where = f"{name}:{number}"
        if len(line) != len(header):
            raise UsageError(f"{len(line)} cells under {len(header)} columns", where=where)
        rows.append((where, {key: cell.strip() for key, cell in zip(header, line, strict=True)}))
    if not rows:
        raise UsageError(f"{name} names columns and holds no row", hint="one line for each measured count")
    if len(rows) > MOST_ROWS:
        raise UsageError(f"{name} holds {len(rows)} rows; at most {MOST_ROWS} are read")
    return rows


def _check_header(name: str, header: Sequence[str], more: Sequence[str]) -> None:
    needed = [*NEEDED, *more]
    if "placement" in header:
        needed = [column for column in needed if column not in ("ranks", "nodes")]
    twice = sorted({column for column in header if header.count(column) > 1})
    if twice:
        raise UsageError(f"{name} names the column {clean(twice[0])} twice")
    for column in needed:
        if column not in header:
            near = difflib.get_close_matches(column, [other for other in header if other not in KNOWN], 1)
            hint = f"is {clean(near[0])} meant by it? " if near else ""
            raise UsageError(f"{name} has no column {column}", hint=hint + EXAMPLE)


def _place(where: str, cells: Cells) -> Place:
    batch = _positive(where, cells, "local_batch")
    ranks, nodes, widest = 0, 0, 0
    if cells.get("placement"):
        try:
            spread = [int(part) for part in cells["placement"].split("-")]
        except ValueError:
            spread = []
        if not spread or min(spread) < 1:
            raise UsageError(
                f"placement is {clean(cells['placement'])}", where=where, hint="ranks on each node: 2-2-4"
            )
        ranks, nodes, widest = sum(spread), len(spread), max(spread)
    for column, told in (("ranks", ranks), ("nodes", nodes)):
        if column not in cells and told:
            continue
        count = _positive(where, cells, column)
        if count != int(count) or count > MOST_RANKS:
            raise UsageError(f"{column} is {cells[column]}, not a count", where=where)
        if told and told != count:
            raise UsageError(
                f"{column} is {cells[column]}, but placement {cells['placement']} has {told}", where=where
            )
        ranks, nodes = (int(count), nodes) if column == "ranks" else (ranks, int(count))
    if nodes > ranks:
        raise UsageError(f"{ranks} ranks cannot lie on {nodes} nodes", where=where)
    return Place(ranks, nodes, batch, widest if widest > math.ceil(ranks / nodes) else 0)


def _positive(where: str, cells: Cells, column: str) -> float:
    return _number(where, column, cells[column])


def _optional(where: str, cells: Cells, column: str, *, zero: bool = False) -> float | None:
    return _number(where, column, cells[column], zero=zero) if cells.get(column) else None


def _number(where: str, column: str, written: str, *, zero: bool = False) -> float:
    try:
        value = float(written)
    except ValueError:
        what = f"{clean(written)!r}" if written else "empty"
        raise UsageError(f"{column} is {what}, not a number", where=where) from None
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        least = "zero or more" if zero else "more than zero"
        raise UsageError(f"{column} is {written}; it has to be {least}", where=where)
    return value
