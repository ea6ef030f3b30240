"""``advisor compare``: two results side by side, without torch."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import click

from advisor.base.errors import UsageError, clean
from advisor.cli import EXIT_CODES
from advisor.cli.common import DEBUG, FORMAT, NO_COLOR, STORED
from advisor.cli.completion import complete_result
from advisor.cli.found import find_result
from advisor.cli.options import SCRIPT_ARGUMENTS, Command, problems_of
from advisor.cli.output import width, write
from advisor.cli.tables import table

if TYPE_CHECKING:
    from advisor.result.compare import ComparisonData

HELP = """Put two results side by side.

A and B are each a `result.json`, the folder of a report, or the name of a study. They have to be of the same
program with the same arguments, measured on the same machine with the same torch.

\b
Examples:
  advisor compare old-report advisor-report
  advisor compare train train-2 --format md
"""


@click.command(
    "compare",
    cls=Command,
    from_files=("storage",),
    help=HELP,
    epilog=EXIT_CODES,
    short_help="Put two results side by side.",
)
@click.argument("results", nargs=-1, type=click.UNPROCESSED, metavar="A B", shell_complete=complete_result)
@STORED
@FORMAT
@NO_COLOR
@DEBUG
@click.pass_context
def command(
    ctx: click.Context, *, results: tuple[str, ...], storage: str | None,
    format: Literal["text", "json", "md"] | None, no_color: bool, debug: bool,
) -> int:  # fmt: skip
    """Find both, compare, print."""
    from advisor.report.compare_page import render_markdown
    from advisor.result.compare import Given, compare

    problems = problems_of(ctx)
    given = (*results, *ctx.meta[SCRIPT_ARGUMENTS])
    with problems.gather():
        _require_two(given)
    problems.raise_any()
    found = []
    for name in given:
        with problems.gather():
            found.append(Given(name, find_result(name, storage)))
    problems.raise_any()
    comparison = compare(*found)
    match format or "text":
        case "json":
            write(comparison.to_json())
        case "md":
            write(render_markdown(comparison))
        case "text":
            write(_text(comparison))
    return 0


def _require_two(names: Sequence[str]) -> None:
    hint = "`advisor compare old-report advisor-report`"
    if len(names) < 2:
        raise UsageError(f"Missing argument '{'B' if names else 'A'}'.", hint=hint)
    if len(names) > 2:
        raise UsageError(f"got an unexpected extra argument ({clean(names[2])})", hint=hint)


def _text(comparison: "ComparisonData") -> str:
    from advisor.report.compare_page import finding_lines, names, notes, rows, sentence
    from advisor.report.lines import wrapped

    columns = width()
    head = [sentence(comparison), "", *names(comparison), *notes(comparison), ""]
    figures = table([("what", "A", "B"), *rows(comparison)], columns)
    return wrapped(head, columns) + figures + wrapped(finding_lines(comparison), columns)
