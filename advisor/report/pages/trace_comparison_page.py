"""The faces of a comparison of two traces: sentences and rows for a terminal, Markdown for copying."""

from collections.abc import Sequence
from pathlib import PurePath

from advisor.report.charts.device_chart import WAITING
from advisor.report.markdown import counted, escaped, fitted, section
from advisor.report.pages.compare_page import MARKER
from advisor.result import wording
from advisor.result.trace_comparison import Difference, TraceComparison, TraceSide
from advisor.result.wording import shown

SAME = 0.02  # relative difference of two steps that is called none: one pair on a quiet machine shows it
MOST_ROWS = 12  # of one table
MOST_NAME = 60
LEAST = 0.001  # of the longer step: a smaller difference is in the JSON alone

Row = tuple[str, ...]
Table = tuple[str, Row, list[Row]]
HEAD = ("what", "A", "B", "B less A")


def render_markdown(result: TraceComparison) -> str:
    """The comparison for a pull request: the sentence first, then tables; it fits a comment."""
    told = [f"- {escaped(text, 1000)}" for text in (*names(result), *notes(result))]
    tables = {
        title: section(title, head, [tuple(escaped(cell, 300) for cell in row) for row in rows])
        for title, head, rows in (*tables_of(result), *single_tables_of(result))
    }
    opening = [MARKER, f"**{escaped(sentence(result), 1000)}**"]
    sections = {"what was compared": told, **tables}
    return fitted(opening, sections, list(sections)[::-1], "`advisor compare A B --format json`")


def sentence(result: TraceComparison) -> str:
    """The one that opens every face: the time of a step, and what makes most of the difference."""
    a, b, ratio = result.a, result.b, result.step_ratio
    both = f"{wording.plain(a.step_ms)} ms and {wording.plain(b.step_ms)} ms"
    if ratio is None:
        return f"Time of a step: {both}."
    if abs(ratio - 1) <= SAME:
        return f"A step takes as long in B as in A: {both}."
    opening = f"A step takes {ratio:.2f}x as long in B as in A ({both})"
    longer = b.step_ms - a.step_ms
    parts = [each for each in (*_busy(result), *result.idle) if each.difference_ms * longer > 0]
    if not parts:
        return f"{opening}."
    first = max(parts, key=lambda each: abs(each.difference_ms))
    return f"{opening}; the most of it: {_part(result, first)}, {_signed(first.difference_ms)}."


def names(result: TraceComparison) -> list[str]:
    """What A and B are."""
    return [f"{letter}: {_name(side)}" for letter, side in (("A", result.a), ("B", result.b))]


def notes(result: TraceComparison) -> list[str]:
    """What limits the comparison, in sentences."""
    said = ["Each is one recording: what differs from run to run is in the difference."]
    if result.a.device != result.b.device:
        said.append("They were recorded on different devices, whose kernels have other names.")
    for letter, side in (("A", result.a), ("B", result.b)):
        said += [f"{letter}: {shown(note)}." for note in side.notes]
    return said


def tables_of(result: TraceComparison) -> list[Table]:
    """Parts of a step and kinds of kernels; tables without rows are left out."""
    busy = [*_busy(result), *result.idle]
    found = [
        ("One step, on the device", HEAD, _parts(result, busy)),
        ("One step, on the host", HEAD, _parts(result, result.host)),
        ("Kernels by what they do", HEAD, _parts(result, result.kinds)),
    ]
    return [(title, head, rows) for title, head, rows in found if rows]


def single_tables_of(result: TraceComparison) -> list[Table]:
    """Operators and kernels that make the difference, as rows."""
    found: list[Table] = []
    for title, what, each in _singles(result):
        rows: list[Row] = [
            (_name_of(one), shown(one.of, MOST_NAME), *_times(one), _calls(one), _place(one)) for one in each
        ]
        found.append((title, (*what, *HEAD[1:], "calls", "called in"), rows))
    return found


def lines_of(result: TraceComparison) -> list[str]:
    """The same for a terminal, in which names of kernels do not fit beside five columns."""
    lines = []
    for title, _, each in _singles(result):
        lines += ["", f"{title}:"]
        for one in each:
            of = f" ({shown(one.of, MOST_NAME)})" if one.of else ""
            place = f" in {_place(one)}" if one.location else ""
            times = f"{_ms(one.a_ms)} to {_ms(one.b_ms)}, {_calls(one)} calls"
            lines.append(f"  {_signed(one.difference_ms)}  {_name_of(one)}{of}{place}: {times}")
    return lines


def _singles(result: TraceComparison) -> list[tuple[str, tuple[str, str], list[Difference]]]:
    found = []
    for title, what, differences in (
        ("Operators", ("operator", "phase"), result.operators),
        ("Kernels", ("kernel", "operator"), result.kernels),
    ):
        told = [each for each in differences.largest if abs(each.difference_ms) >= _least(result)]
        if told:
            rows = told[:MOST_ROWS]
            found.append((counted(f"{title} that make the difference", rows, told), what, rows))
    return found


def _busy(result: TraceComparison) -> list[Difference]:
    """Parts of the device's time; idle time is told by its causes, in words of its own."""
    return [each for each in result.device if each.name != "idle" or not result.idle]


def _parts(result: TraceComparison, parts: Sequence[Difference]) -> list[Row]:
    told = [each for each in parts if max(each.a_ms or 0.0, each.b_ms or 0.0) >= _least(result)]
    told.sort(key=lambda each: -abs(each.difference_ms))
    return [(_part(result, each), *_times(each)) for each in told]


def _least(result: TraceComparison) -> float:
    return LEAST * max(result.a.step_ms, result.b.step_ms)


def _name_of(each: Difference) -> str:
    return shown(each.name.removeprefix("void "), MOST_NAME)


def _place(each: Difference) -> str:
    """File and line with the last folder: whole paths are in the JSON."""
    return shown("/".join(PurePath(each.location or "").parts[-2:]), 80)


def _calls(each: Difference) -> str:
    a, b = each.a_calls or 0.0, each.b_calls or 0.0
    return f"{a:g}" if a == b else f"{a:g} to {b:g}"


def _times(each: Difference) -> tuple[str, str, str]:
    return _ms(each.a_ms), _ms(each.b_ms), _signed(each.difference_ms)


def _ms(value: float | None) -> str:
    return "none" if value is None else f"{wording.plain(value)} ms"


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else '-'}{wording.plain(abs(value))} ms"


def _part(result: TraceComparison, each: Difference) -> str:
    words = WAITING.get(each.name, "idle") if each in result.idle else shown(each.name, 40)
    return words.replace("_", " ")


def _name(side: TraceSide) -> str:
    steps = f"{side.steps} step{'' if side.steps == 1 else 's'}"
    return ", ".join(filter(None, (shown(side.name), steps, shown(side.device))))
