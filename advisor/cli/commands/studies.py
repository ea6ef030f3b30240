"""``advisor studies``: what is stored."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from advisor.cli import EXIT_CODES
from advisor.cli.common import DEBUG, NO_COLOR, STORED, TEXT_OR_JSON
from advisor.cli.options import Command
from advisor.cli.output import warn, width, write
from advisor.cli.stored import parse_given
from advisor.cli.tables import table

if TYPE_CHECKING:
    from advisor.storage.store import StudySummary

HELP = """List the studies of a storage, newest first.

\b
Examples:
  advisor studies
  advisor studies --storage postgresql://ada@db/studies --format json
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
@STORED
@TEXT_OR_JSON
@NO_COLOR
@DEBUG
def command(*, storage: str | None, format: str | None, no_color: bool, debug: bool) -> int:
    """Read, print."""
    found = _studies(storage)
    listed = json.dumps([asdict(each) for each in found], indent=2) + "\n"
    write(listed if format == "json" else _text(found))
    return 0


def _studies(storage: str | None) -> list["StudySummary"]:
    url = parse_given(storage)
    if storage is None and url.path is not None and not url.path.exists():
        return []
    from advisor.storage.store import Store

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
