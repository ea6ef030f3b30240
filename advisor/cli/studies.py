"""``advisor studies``: what is stored, also as lines that another database takes."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, BinaryIO

import click

from advisor.cli import EXIT_CODES
from advisor.cli.common import DEBUG, NO_COLOR, STORED, TEXT_OR_JSON
from advisor.cli.options import Command, problems_of, setting
from advisor.cli.output import warn, width, write
from advisor.cli.stored import parse_given
from advisor.cli.tables import table
from advisor.errors import UsageError, clean
from advisor.storage_url import refuse_unshared

if TYPE_CHECKING:
    from advisor.store import StudySummary

HELP = """List the studies of a storage, newest first; `export` and `import` take them elsewhere.

`export` writes the study NAME, or all, to stdout as JSON lines, without secrets and home folders. `import`
reads such a FILE (`-` for stdin) into the storage, and refuses a name that is there.

\b
Examples:
  advisor studies
  advisor studies --storage postgresql://ada@db/studies --format json
  advisor studies export train > train.jsonl
  advisor studies import train.jsonl --storage postgresql://ada@db/studies
"""
HEADINGS = ("study", "created", "target", "trials", "verdict", "status")


@click.command(
    "studies",
    cls=Command,
    from_files=("storage",),
    help=HELP,
    epilog=EXIT_CODES,
    short_help="List what is stored.",
)
@click.argument("action", required=False, type=click.UNPROCESSED, metavar="[export|import]")
@click.argument("what", required=False, type=click.UNPROCESSED, metavar="[NAME|FILE]")
@STORED
@setting("--study", type=str, metavar="NAME", group="What to run", help="Import under this name.")
@TEXT_OR_JSON
@NO_COLOR
@DEBUG
@click.pass_context
def command(
    ctx: click.Context, *, action: str | None, what: str | None, storage: str | None, study: str | None,
    format: str | None, no_color: bool, debug: bool,
) -> int:  # fmt: skip
    """Read, print."""
    problems = problems_of(ctx)
    with problems.gather():
        if action not in (None, "export", "import"):
            raise UsageError(
                f"got an unexpected extra argument ({clean(action)})", hint="`advisor studies export|import`"
            )
    with problems.gather():
        if action == "import" and not what:
            raise UsageError("Missing argument 'FILE'.", hint="`advisor studies import FILE`")
    with problems.gather(where="--study"):
        if study is not None and action != "import":
            raise UsageError("--study belongs to `advisor studies import`", hint="leave it out")
    problems.raise_any()
    if action == "export":
        _export(storage, what)
    elif action == "import":
        _import(storage, what or "", study, as_json=format == "json")
    else:
        found = _studies(storage)
        listed = json.dumps([asdict(each) for each in found], indent=2) + "\n"
        write(listed if format == "json" else _text(found))
    return 0


def _export(storage: str | None, name: str | None) -> None:
    url = parse_given(storage)
    from advisor.opening import open_database
    from advisor.study_export import export

    with contextlib.closing(open_database(url, create=False, warn=warn)) as database:
        for line in export(database, [name] if name is not None else []):
            write(line)


def _import(storage: str | None, file: str, study: str | None, *, as_json: bool) -> None:
    url = parse_given(storage)
    refuse_unshared(url)
    from advisor.opening import open_database
    from advisor.study_import import count_of, read_lines, renamed, store

    with _opened(file) as stream:
        found = read_lines(stream, clean(file))
    if study is not None:
        found = renamed(found, study)
    with contextlib.closing(open_database(url, create=True, warn=warn)) as database:
        store(database, found)
    counts = [count_of(each) for each in found]
    if as_json:
        write(json.dumps({"imported": [asdict(each) for each in counts]}, indent=2) + "\n")
    else:
        write("".join(f"Imported study '{each.name}': {each.trials} trials\n" for each in counts))


@contextlib.contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    """The file to import, or stdin.

    Raises:
        UsageError: It cannot be read.
    """
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        stream = open(file, "rb")  # noqa: SIM115  closed below: errors of reading are not those of opening
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot read {clean(file)}", cause=clean(reason)) from None
    with stream:
        yield stream


def _studies(storage: str | None) -> list["StudySummary"]:
    url = parse_given(storage)
    if storage is None and url.path is not None and not url.path.exists():
        return []
    from advisor.store import Store

    with Store.open(url, create=False, warn=warn) as store:
        return store.studies()


def _text(found: Sequence["StudySummary"]) -> str:
    if not found:
        return "No studies yet. `advisor tune TARGET` makes the first.\n"
    rows = [
        (
            one.name,
            one.created[:16].replace("T", " "),
            one.target,
            str(one.trials),
            one.verdict or "none yet",
            one.status,
        )
        for one in found
    ]
    return table([HEADINGS, *rows], width())
