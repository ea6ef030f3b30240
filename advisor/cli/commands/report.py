"""``advisor report``: show a result again, without torch."""

import sys
from pathlib import Path
from typing import Literal

import click

from advisor.base.errors import UsageError, clean
from advisor.cli import EXIT_CODES
from advisor.cli.common import DEBUG, NO_COLOR, STORED, formats
from advisor.cli.completion import complete_result
from advisor.cli.found import find_result
from advisor.cli.options import Command, problems_of, setting
from advisor.cli.output import tell, write

HELP = """Show a result again.

RESULT is a `result.json`, the folder of a report, or the name of a study.

\b
Examples:
  advisor report advisor-report --format md
  advisor report train --out again
"""


@click.command(
    "report",
    cls=Command,
    from_files=("storage",),
    help=HELP,
    epilog=EXIT_CODES,
    short_help="Show a result again.",
)
@click.argument("result", required=False, type=click.UNPROCESSED, shell_complete=complete_result)
@STORED
@formats("html", "json", "md", "sarif")
@setting("--out", type=str, metavar="DIR", group="Output", help="Write the whole report to this folder.")
@NO_COLOR
@DEBUG
@click.pass_context
def command(
    ctx: click.Context, *, result: str | None, storage: str | None,
    format: Literal["html", "json", "md", "sarif"] | None, out: str | None, no_color: bool, debug: bool,
) -> int:  # fmt: skip
    """Find, render, print or write."""
    from advisor.report.files import render_html, render_markdown, write_report
    from advisor.report.folder import check_folder

    problems = problems_of(ctx)
    with problems.gather():
        if result is None:
            raise UsageError("Missing argument 'RESULT'.", hint="`advisor report advisor-report --format md`")
    with problems.gather():
        if out is None and format in (None, "html") and sys.stdout.isatty():
            raise UsageError("HTML to a terminal", hint="`> report.html`, or `--out DIR`")
    with problems.gather(where="--out"):
        if out is not None:
            check_folder(Path(out))
    problems.raise_any()
    assert result is not None
    found = find_result(result, storage)
    if out is not None:
        for path in write_report(found, Path(out)):
            tell(f"Wrote {clean(str(path))}")
        return 0
    match format or "html":
        case "html":
            write(render_html(found))
        case "json":
            write(found.to_json())
        case "md":
            write(render_markdown(found))
        case "sarif":
            from advisor.report.sarif import render_sarif

            write(render_sarif(found))
    return 0
