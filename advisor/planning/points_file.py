"""A points file: measurements as CSV, and the places that are asked for in the same columns."""

import csv
import difflib
import math
from collections.abc import Sequence
from pathlib import Path

from advisor.base.errors import UsageError, clean
from advisor.planning.places import Place, Point

NEEDED = ("ranks", "nodes", "local_batch")
OPTIONAL = (
    "placement",
    "exposed_communication_ms",
    "parameters",
    "bytes_per_step",
    "loader_ms",
    "epoch_samples",
    "micro_batches",
)
KNOWN = (*NEEDED, "step_ms", *OPTIONAL)
MADE_OF = {
    "step_ms": "from samples a second it is 1000 x ranks x local_batch / throughput",
    "local_batch": "samples of one rank in a step; 1 in every row if it never changes",
    "nodes": "1 in every row on one machine",
}
"""What to write where people have a column of another kind."""
ALSO_CALLED = {
    "ranks": {"gpus", "gpu", "ngpus", "numgpus", "devices", "worldsize", "processes", "workers"},
    "nodes": {"hosts", "machines", "servers", "numnodes", "nnodes"},
    "local_batch": {"batch", "batchsize", "perdevicebatchsize", "microbatchsize", "samples"},
    "step_ms": {
        "step",
        "steptime",
        "stepms",
        "steps",
        "steptimes",
        "stepseconds",
        "time",
        "ms",
        "iterationms",
    },
}
"""What others call a column, in small letters and without anything between them."""
OF_ALL = {"globalbatch", "globalbatchsize", "totalbatch", "totalbatchsize"}
EXAMPLE = "the first line names the columns: ranks,nodes,local_batch,step_ms"
MOST_ROWS = 100_000
MOST_RANKS = 10**7
SMALLEST, LARGEST = 1e-9, 1e18  # of what a cell can mean, whatever its unit

Cells = dict[str, str]


def read_points(path: Path) -> list[Point]:
    """The measurements of a points file; a count may have several rows.

    Raises:
        UsageError: It cannot be read, lacks a column or holds what cannot have been measured; with the line.
    """
    points = []
    for where, cells in read_rows(path, (*NEEDED, "step_ms")):
        step = positive(where, cells, "step_ms")
        exposed = _optional(where, cells, "exposed_communication_ms", zero=True)
        if exposed is not None and exposed > step:
            raise UsageError(
                f"exposed_communication_ms is {exposed:g}, longer than its step of {step:g} ms",
                where=where,
                hint="it is the part of a step in which ranks only communicate",
            )
        loader = _optional(where, cells, "loader_ms", zero=True)
        if loader is not None and loader > step:
            raise UsageError(
                f"loader_ms is {loader:g}, longer than its step of {step:g} ms",
                where=where,
                hint="it is the part of a step that waits for data",
            )
        parameters = _optional(where, cells, "parameters")
        shared = _optional(where, cells, "bytes_per_step", zero=True)
        epoch = _optional(where, cells, "epoch_samples")
        parts = whole(where, cells, "micro_batches") if cells.get("micro_batches") else None
        points.append(Point(_place(where, cells), step, exposed, parameters, shared, loader, epoch, parts))
    return points


def read_places(path: Path) -> list[Place]:
    """The places that a file names, in its order.

    Raises:
        UsageError: As for measurements.
    """
    return [_place(where, cells) for where, cells in read_rows(path, NEEDED)]


def unread(path: Path) -> list[str]:
    """Columns that mean nothing to a plan, in their order."""
    return [column for column in _header(path) if column and column not in KNOWN]


def columns(path: Path) -> set[str]:
    """The names in the first line; none where it cannot be read."""
    return set(_header(path))


def _header(path: Path) -> list[str]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as opened:
            return [cell.strip() for cell in next(csv.reader(opened), ())]
    except (OSError, UnicodeDecodeError, csv.Error):
        return []


def read_rows(path: Path, needed: Sequence[str]) -> list[tuple[str, Cells]]:
    """Each row of a file that has some columns, with the place that a message names.

    Raises:
        UsageError: It cannot be read, or lacks a column.
    """
    name = clean(str(path))
    try:
        with path.open(newline="", encoding="utf-8-sig") as opened:
            lines = list(csv.reader(opened, skipinitialspace=True))
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file") from None
    except OSError as error:
        raise UsageError(f"cannot read {name}", cause=clean(error.strerror or str(error))) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{name} is not a CSV file", cause=clean(str(error)), hint=_encoding(path)) from None
    if not lines or not any(cell.strip() for line in lines for cell in line):
        raise UsageError(f"{name} is empty", hint=EXAMPLE)
    header = [cell.strip() for cell in lines[0]]
    _check_header(name, header, needed)
    rows = []
    for number, line in enumerate(lines[1:], 2):
        if not any(cell.strip() for cell in line):
            continue
        where = f"{name}:{number}"
        if len(line) != len(header):
            raise UsageError(
                f"{len(line)} cells under {len(header)} columns",
                where=where,
                hint=_hint(header, line, lines[1:]),
            )
        rows.append((where, {key: cell.strip() for key, cell in zip(header, line, strict=True)}))
    if not rows:
        raise UsageError(f"{name} names columns and holds no row", hint="one line for each measured count")
    if len(rows) > MOST_ROWS:
        raise UsageError(f"{name} holds {len(rows)} rows; at most {MOST_ROWS} are read")
    return rows


def _encoding(path: Path) -> str:
    """What to do about bytes that are no text in UTF-8."""
    with path.open("rb") as opened:
        start = opened.read(4)
    if start[:2] == b"PK":
        return "a spreadsheet: save it as CSV (comma separated)"
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "it is UTF-16: save it as CSV UTF-8"
    return f"save it as UTF-8; {EXAMPLE}"


def _hint(header: Sequence[str], line: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """What to do about a row whose cells are not as many as the columns."""
    widths = {len(row) for row in rows if any(cell.strip() for cell in row)}
    if widths == {len(line)} and len(rows) > 1:
        short = "a name is missing in" if len(line) > len(header) else "one name too many is in"
        return f"every row has {len(line)} cells: {short} the first line?"
    if line[0].lstrip().startswith("#"):
        return "comments are not read: delete the line"
    if len(line) < len(header):
        named = ", ".join(f"{name}={clean(cell)}" for name, cell in zip(header, line, strict=False))
        return f"read as {named}; a cell that is not known is left empty between its commas"
    return "points separate decimals, commas cells"


def _check_header(name: str, header: Sequence[str], needed: Sequence[str]) -> None:
    if "placement" in header:
        needed = [column for column in needed if column not in ("ranks", "nodes")]
    twice = sorted({column for column in header if header.count(column) > 1 and column})
    if twice:
        raise UsageError(f"{name} names the column {clean(twice[0])} twice", hint="delete or rename one")
    for column in needed:
        if column not in header:
            example = EXAMPLE if column in KNOWN else f"the first line names the columns: {','.join(needed)}"
            hint = _missing(column, header, [other for other in header if other not in (*KNOWN, *needed)])
            raise UsageError(f"{name} has no column {column}", hint=f"{hint}; {example}" if hint else example)


def _missing(column: str, header: Sequence[str], unknown: Sequence[str]) -> str:
    """What to do about a column that is not there; empty if nothing tells."""
    if header[0].startswith("PK\x03\x04"):
        return "a spreadsheet: save it as CSV (comma separated)"
    if header[0].lower().startswith("sep="):
        return "delete the first line, which names the separator"
    if len(header) == 1 and set(";\t|") & set(header[0]):
        return "commas separate columns, points decimals"
    if header[0].startswith("#"):
        return "comments are not read"
    plain = {"".join(filter(str.isalnum, other)).lower(): other for other in unknown}
    if column == "local_batch" and OF_ALL & plain.keys():
        return f"local_batch is that of one rank: {clean(plain[min(OF_ALL & plain.keys())])} / ranks"
    near = [other for word, other in plain.items() if word in ALSO_CALLED.get(column, ())]
    near += difflib.get_close_matches(column, unknown, 1)
    near += [plain[word] for word in difflib.get_close_matches(column.replace("_", ""), plain, 1)]
    if near:
        unit = ", in milliseconds" if column == "step_ms" else ""
        return f"is {clean(near[0])} meant by it? Name it {column}{unit}"
    return MADE_OF.get(column, "")


def _place(where: str, cells: Cells) -> Place:
    batch = positive(where, cells, "local_batch")
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
        count = whole(where, cells, column)
        if told and told != count:
            raise UsageError(
                f"{column} is {cells[column]}, but placement {cells['placement']} has {told}",
                where=where,
                hint=f"leave {column} out where placement tells it",
            )
        ranks, nodes = (count, nodes) if column == "ranks" else (ranks, count)
    if nodes > ranks:
        raise UsageError(
            f"{ranks} ranks cannot lie on {nodes} nodes",
            where=where,
            hint="ranks is that of all nodes together",
        )
    return Place(ranks, nodes, batch, widest if widest > math.ceil(ranks / nodes) else 0)


def whole(where: str, cells: Cells, column: str) -> int:
    """A count of at least one.

    Raises:
        UsageError: It is none.
    """
    count = positive(where, cells, column)
    if count != int(count) or count > MOST_RANKS:
        raise UsageError(
            f"{column} is {clean(cells[column])}, not a count",
            where=where,
            hint=f"a whole number from 1 to {MOST_RANKS:,}",
        )
    return int(count)


def positive(where: str, cells: Cells, column: str) -> float:
    """A number above zero.

    Raises:
        UsageError: It is none.
    """
    return _number(where, column, cells[column])


def _optional(where: str, cells: Cells, column: str, *, zero: bool = False) -> float | None:
    return _number(where, column, cells[column], zero=zero) if cells.get(column) else None


def _number(where: str, column: str, written: str, *, zero: bool = False) -> float:
    try:
        value = float(written)
    except ValueError:
        what = f"{clean(written)!r}" if written else "empty"
        plain = "digits alone, as in 7e9 or 1024.5; the column says the unit"
        unknown = MADE_OF.get(column, "delete the row of a count that was not measured")
        raise UsageError(
            f"{column} is {what}, not a number", where=where, hint=plain if written else unknown
        ) from None
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        least = "zero or more" if zero else "more than zero"
        raise UsageError(
            f"{column} is {clean(written)}; it has to be {least}",
            where=where,
            hint="delete the row of a count that was not measured",
        )
    if value and not SMALLEST <= value <= LARGEST:
        raise UsageError(
            f"{column} is {clean(written)}; nothing was ever that {'small' if value < 1 else 'large'}",
            where=where,
            hint=f"between {SMALLEST:g} and {LARGEST:g}",
        )
    return value
