"""``advisor studies``: what is stored."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from advisor.cli import EXIT_CODES, values
from advisor.cli.options import Command, problems_of, setting
from advisor.cli.output import warn, width, write
from advisor.cli.stored import parse_given
from advisor.cli.tables import table
from advisor.errors import UsageError, clean

if TYPE_CHECKING:
    from advisor.store import StudySummary

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
@click.argument("action", required=False, type=click.UNPROCESSED)
@setting("--storage", read=values.text, metavar="URL", group="What to run", help="Where studies are stored.")
@setting(
    "--format",
    read=values.choice(("text", "json")),
    metavar="NAME",
    group="Output",
    default_text="text",
    help="text or json.",
)
@setting("--no-color", group="Output", help="No colour.")
@setting("--debug", group="Output", help="Show tracebacks of errors.")
@click.pass_context
def command(
    ctx: click.Context, *, action: str | None, storage: str | None, format: str | None, no_color: bool,
    debug: bool,
) -> int:  # fmt: skip
    """Read, print."""
    problems = problems_of(ctx)
    if action in ("export", "import"):
        raise UsageError(f"`advisor studies {action}` is not available yet", hint="`advisor studies`")
    if action is not None:
        raise UsageError(f"got an unexpected extra argument ({clean(action)})", hint="`advisor studies`")
    problems.raise_any()
    found = _studies(storage)
    write(
        json.dumps([asdict(study) for study in found], indent=2) + "\n" if format == "json" else _text(found)
    )
    return 0


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
