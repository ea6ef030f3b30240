"""The faces of a comparison: sentences and rows for a terminal, Markdown for copying."""

from advisor.report.charts.charts import phase_words
from advisor.report.markdown import code, counted, escaped, fitted, section
from advisor.report.pages.findings_page import place
from advisor.result import wording
from advisor.result.compare import ComparisonData, OneSided, Side
from advisor.result.document import Value
from advisor.result.wording import shown

MARKER = "<!-- advisor compare -->"  # one hidden line by which a comment is found again and updated
NOT_CHANGED = "not recommended"
MOST_FINDINGS = 20  # in one table for a pull request

Row = tuple[str, str, str]


def render_markdown(result: ComparisonData) -> str:
    """The comparison for a pull request: the sentence first, then tables; it fits a comment."""
    figures = [tuple(escaped(cell) for cell in row) for row in rows(result)]
    both = ", ".join(map(code, result.stayed))
    sections = {
        "what was compared": [f"- {escaped(text, 1000)}" for text in [*names(result), *notes(result)]],
        "figures": section("", ("what", "A", "B"), figures),
        "findings that came": _findings("Findings that came with B", result.came, "in A"),
        "findings that went": _findings("Findings that went with B", result.went, "in B"),
        "findings in both": [f"Findings in both: {both}"] if both else [],
    }
    opening = [MARKER, f"**{escaped(sentence(result), 1000)}**"]
    return fitted(opening, sections, list(sections)[::-1], "`advisor compare A B --format json`")


def sentence(result: ComparisonData) -> str:
    """The one that opens every face: the time of a step, or why its times are not compared."""
    ratio = result.step_ratio
    if ratio is None:
        return f"The times of a step are not compared: {shown(result.why_no_ratio)}."
    told = wording.ratio(ratio)
    if wording.holds_one(ratio):
        return f"Time of a step: {told}."
    return f"A step takes {told} as long in B as in A."


def names(result: ComparisonData) -> list[str]:
    """What A and B are."""
    return [f"{letter}: {_name(side)}" for letter, side in (("A", result.a), ("B", result.b))]


def notes(result: ComparisonData) -> list[str]:
    """What limits the comparison, in sentences."""
    said = []
    if result.step_ratio is not None:
        alone = [letter for letter, side in (("A", result.a), ("B", result.b)) if side.processes == 1]
        whose = f"; {' and '.join(alone)}: one process, its bias allowed for" if alone else ""
        said.append(f"The interval is over the processes of both results{whose}.")
        said.append("They were not interleaved: a drift of the machine between them is not excluded.")
    if result.smallest_difference is not None:
        seen = wording.percent(result.smallest_difference)
        said.append(f"Differences from {seen} up could be seen.")
    said += [
        f"The machine was contended when {letter} was measured: its times may be too long."
        for letter, side in (("A", result.a), ("B", result.b))
        if side.contended
    ]
    return said


def rows(result: ComparisonData) -> list[Row]:
    """Every quantity in both results, as plain text."""
    a, b = result.a, result.b
    found = [
        ("time of a step", wording.interval(a.step_ms, "ms"), wording.interval(b.step_ms, "ms")),
        ("throughput", wording.rate(a.throughput), wording.rate(b.throughput)),
        ("peak memory", wording.mib(a.peak_bytes), _memory(result)),
        ("recommendation", _recommendation(a), _recommendation(b)),
    ]
    found += [
        (f"change {shown(each.knob, 80)}", _value(each.a, NOT_CHANGED), _value(each.b, NOT_CHANGED))
        for each in result.changes
    ]
    found += [(f"setting {shown(each.knob, 80)}", _value(each.a), _value(each.b)) for each in result.settings]
    parts = dict.fromkeys((*a.phases_ms, *b.phases_ms))
    shares = [(_part(a, part), _part(b, part), part) for part in parts if _takes_time(result, part)]
    return found + [(f"part {phase_words(part)}", one, other) for one, other, part in shares]


def finding_lines(result: ComparisonData) -> list[str]:
    """Findings that came, went and stayed, for a terminal."""
    lines = []
    for title, found, where in (("Came with B", result.came, "A"), ("Went with B", result.went, "B")):
        if found:
            lines += ["", f"{title} ({len(found)}):"]
            lines += [f"  {_finding(each)}; in {where}: {_state(each)}" for each in found]
    if result.stayed:
        lines += [
            "",
            f"In both ({len(result.stayed)}): {', '.join(shown(rule, 80) for rule in result.stayed)}",
        ]
    return lines or ["", "No finding fired in either."]


def _findings(title: str, found: list[OneSided], other: str) -> list[str]:
    rows = [
        (each.severity or "", code(each.rule), escaped(_titled(each)), _state(each))
        for each in found[:MOST_FINDINGS]
    ]
    return section(counted(title, rows, found), ("severity", "rule", "finding", other), rows)


def _finding(each: OneSided) -> str:
    severity = f"[{each.severity}] " if each.severity else ""
    return f"{severity}{shown(each.rule, 80)}: {_titled(each)}"


def _titled(each: OneSided) -> str:
    where = place(each.location)
    title = shown(each.title, 300)
    return f"{title} ({where})" if where and where not in title else title


def _state(each: OneSided) -> str:
    return each.elsewhere.replace("_", " ")


def _name(side: Side) -> str:
    made = f"{side.made_by}, {shown(side.created)}" if side.created else side.made_by
    return f"{shown(side.name)} ({made})"


def _memory(result: ComparisonData) -> str:
    told = wording.mib(result.b.peak_bytes)
    return told if result.memory_ratio is None else f"{told} ({result.memory_ratio:.2f}x)"


def _recommendation(side: Side) -> str:
    if side.verdict is None or side.speedup is None:
        return "none: a profile"
    if side.verdict == "keep":
        return "keep what you have"
    count = len(side.changes)
    return f"{count} change{'' if count == 1 else 's'}: {wording.short_ratio(side.speedup)}"


def _value(value: Value | None, missing: str = "not known") -> str:
    return missing if value is None else wording.setting(value)


def _takes_time(result: ComparisonData, part: str) -> bool:
    return any(side.phases_ms.get(part, 0) > 0 for side in (result.a, result.b))


def _part(side: Side, part: str) -> str:
    if part not in side.phases_ms:
        return wording.MISSING
    spent, whole = side.phases_ms[part], sum(side.phases_ms.values())
    return f"{wording.plain(spent)} ms ({wording.share_of(spent, whole)})"
