"""``advisor compare``: two results or two traces side by side, without torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from advisor.base.errors import UsageError, clean
from advisor.cli import EXIT_CODES
from advisor.cli.common import DEBUG, NO_COLOR, STORED, formats
from advisor.cli.completion import complete_result
from advisor.cli.found import find_result, holds_trace
from advisor.cli.options import SCRIPT_ARGUMENTS, Command, problems_of
from advisor.cli.output import width, write
from advisor.cli.problems import Problems
from advisor.cli.tables import table

if TYPE_CHECKING:
    from advisor.result.compare import ComparisonData
    from advisor.result.trace_comparison import TraceComparison

HELP = """Put two results, or two traces, side by side.

A and B are trace files of torch.profiler, of which is shown what takes longer in one of them: operators and
kernels to the line, and what the device waited for. Or each is a `result.json`, the folder of a report, or
the name of a study, both of the same program with the same arguments, measured on the same machine with the
same torch.

\b
Examples:
  advisor compare old-report advisor-report
  advisor compare train train-2 --format md
  advisor compare before.json.gz after.json.gz
  advisor compare before.json.gz after.json.gz --format html > difference.html
"""


@click.command(
    "compare",
    cls=Command,
    from_files=("storage",),
    help=HELP,
    epilog=EXIT_CODES,
    short_help="Put two results, or two traces, side by side.",
)
@click.argument("results", nargs=-1, type=click.UNPROCESSED, metavar="A B", shell_complete=complete_result)
@STORED
@formats("text", "json", "md", "html")
@NO_COLOR
@DEBUG
@click.pass_context
def command(
    ctx: click.Context, *, results: tuple[str, ...], storage: str | None,
    format: Literal["text", "json", "md", "html"] | None, no_color: bool, debug: bool,
) -> int:  # fmt: skip
    """Find both, compare, print."""
    problems = problems_of(ctx)
    given = (*results, *ctx.meta[SCRIPT_ARGUMENTS])
    with problems.gather():
        _require_two(given)
    problems.raise_any()
    if all(holds_trace(name) for name in given):
        _compare_traces(given, format or "text")
    else:
        _compare_results(given, storage, format or "text", problems)
    return 0


def _compare_traces(names: Sequence[str], format: str) -> None:
    from advisor.report.pages.trace_comparison_page import render_markdown
    from advisor.runs.compare_traces import compare_traces

    comparison = compare_traces(*map(Path, names))
    match format:
        case "json":
            write(comparison.to_json())
        case "md":
            write(render_markdown(comparison))
        case "text":
            write(_text_of_traces(comparison))
        case "html":
            from advisor.report.pages.comparison_html import html_of_traces

            write(html_of_traces(comparison))


def _compare_results(names: Sequence[str], storage: str | None, format: str, problems: Problems) -> None:
    from advisor.report.pages.compare_page import render_markdown
    from advisor.result.compare import Given, compare

    found = []
    traces = [name for name in names if holds_trace(name)]
    for name in names:
        if name not in traces:
            with problems.gather():
                found.append(Given(name, find_result(name, storage)))
    problems.raise_any()
    if traces:
        raise UsageError(
            f"{clean(traces[0])} is a trace, the other one is none",
            hint="give two traces or two results",
            code="not_comparable",
        )
    comparison = compare(*found)
    match format:
        case "json":
            write(comparison.to_json())
        case "md":
            write(render_markdown(comparison))
        case "text":
            write(_text(comparison))
        case "html":
            from advisor.report.pages.comparison_html import html_of_results

            write(html_of_results(comparison))


def _require_two(names: Sequence[str]) -> None:
    hint = "`advisor compare old-report advisor-report`"
    if len(names) < 2:
        raise UsageError(f"Missing argument '{'B' if names else 'A'}'.", hint=hint)
    if len(names) > 2:
        raise UsageError(f"got an unexpected extra argument ({clean(names[2])})", hint=hint)


def _text(comparison: "ComparisonData") -> str:
    from advisor.report.lines import wrapped
    from advisor.report.pages.compare_page import finding_lines, names, notes, rows, sentence

    columns = width()
    head = [sentence(comparison), "", *names(comparison), *notes(comparison), ""]
    figures = table([("what", "A", "B"), *rows(comparison)], columns)
    return wrapped(head, columns) + figures + wrapped(finding_lines(comparison), columns)


def _text_of_traces(comparison: "TraceComparison") -> str:
    from advisor.report.lines import wrapped
    from advisor.report.pages.trace_comparison_page import lines_of, names, notes, sentence, tables_of

    columns = width()
    text = wrapped([sentence(comparison), "", *names(comparison), *notes(comparison)], columns)
    for title, head, rows in tables_of(comparison):
        text += "\n" + wrapped([f"{title}:"], columns) + table([head, *rows], columns)
    return text + wrapped(lines_of(comparison), columns)
