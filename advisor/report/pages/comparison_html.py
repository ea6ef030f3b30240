"""A comparison as one offline page."""

from dataclasses import dataclass

from advisor.report.pages import compare_page, trace_comparison_page
from advisor.report.rendering import rendered
from advisor.result.compare import ComparisonData
from advisor.result.trace_comparison import TraceComparison

Row = tuple[str, ...]


@dataclass(frozen=True)
class _Page:
    """What the template shows: the sentence, what A and B are, what limits them, tables and further lines."""

    sentence: str
    names: list[str]
    notes: list[str]
    tables: list[tuple[str, Row, list[Row]]]
    lines: list[str]


def html_of_traces(result: TraceComparison) -> str:
    """Two traces: the parts of a step, and the operators and kernels that make the difference."""
    own = trace_comparison_page
    tables = [*own.tables_of(result), *own.single_tables_of(result)]
    return rendered(
        "comparison.html.j2",
        _Page(own.sentence(result), own.names(result), own.notes(result), tables, []),
    )


def html_of_results(result: ComparisonData) -> str:
    """Two results: every quantity, and the findings that came and went."""
    own = compare_page
    figures: list[Row] = [*own.rows(result)]
    lines = [line.strip() for line in own.finding_lines(result) if line.strip()]
    return rendered(
        "comparison.html.j2",
        _Page(
            own.sentence(result),
            own.names(result),
            own.notes(result),
            [("Figures", ("what", "A", "B"), figures)],
            lines,
        ),
    )
