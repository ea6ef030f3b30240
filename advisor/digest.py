"""The Markdown digest: verdict first, then tables; user text can neither link, mention nor break a row."""

from collections.abc import Sequence

from advisor import (
    conditions,
    findings_page,
    outlook,
    profile_page,
    rank_chart,
    scaling_chart,
    strategies_page,
    wording,
)
from advisor import page as pages
from advisor.result import Document, ProfileData, ProfileSummary, ResultData

MOST_NAME = 80
MOST_TRIALS = 10
MOST_FINDINGS = 10
MARKER = "<!-- advisor -->"  # one hidden line by which a comment is found again and updated

# Zero-width space after @ and # because GitHub looks for mentions and issues after decoding entities.
ESCAPES = {c: f"&#{ord(c)};" for c in "&<>|`*_[]!~\\$"} | {"@": "&#64;&#8203;", "#": "&#35;&#8203;"}


def escaped(text: object, limit: int = 300) -> str:
    """User text as one line of Markdown that renders to itself, in a table too."""
    line = "".join(ESCAPES.get(c, c) for c in wording.shown(text, limit))
    line = line.replace("://", "&#58;//").replace("www.", "www&#46;")
    return line.strip() or "(empty)"


def code(text: object, limit: int = MOST_NAME) -> str:
    """User text as a code span; escaped text where a span could not hold it in a table."""
    line = wording.shown(text, limit)
    if not line.strip() or set(line) & set("|`\\"):
        return escaped(line, limit)
    return f"`{line}`"


def markdown(result: ResultData) -> str:
    """The digest of a result. Whole sections, never half a table; ends with a newline."""
    sections = [
        [MARKER, f"**{escaped(wording.verdict(result), 1000)}**"],
        _reason(result),
        _changes(result),
        _findings(result),
        _facts(result),
        _ranks(result.profile),
        _strategies(result),
        _scaling(result),
        _trials(result),
        _failures(result),
        _proposals(result),
        _not_tried(result),
        ["### Limits", "", *(f"- {limit}" for limit in conditions.limits(result))],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def profile_markdown(result: ProfileData) -> str:
    """The digest of a profile: what was found first, then the figures."""
    title = result.profile.summary or "One run, looked at closely"
    rows = [(tile.name, escaped(tile.text)) for tile in profile_page.tiles(result)]
    phases = result.profile.phases_ms
    total = sum(phases.values())
    parts = [
        (escaped(name.replace("_", " ")), f"{wording.plain(spent)} ms", wording.share_of(spent, total))
        for name, spent in sorted(phases.items(), key=lambda item: -item[1])
        if spent > 0
    ]
    sections = [
        [MARKER, f"**{escaped(title, 1000)}**"],
        [f"- {escaped(text, 500)}" for text in [*result.warnings, *result.profile.notes]],
        _findings(result),
        _section("Measured", ("what", "value"), rows),
        _section("One step", ("part", "time", "share"), parts),
        _ranks(result.profile),
        ["### Limits", "", *(f"- {limit}" for limit in profile_page.limits(result))],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _findings(result: Document) -> list[str]:
    found = [f for f in result.findings if f.state in ("opportunity", "diagnostic")]
    rows = []
    for finding in found[:MOST_FINDINGS]:
        row = findings_page.finding_row(finding)
        where = code(row.place) if row.place else ""
        rows.append(
            (
                f"{row.severity} {row.kind}",
                " ".join(filter(None, (escaped(row.title), where))),
                escaped(row.gain) if row.gain else "",
                escaped(row.advice, 500) if row.advice else "",
                escaped(row.outcome),
            )
        )
    title = "Findings" if len(found) == len(rows) else f"Findings: {len(rows)} of {len(found)}"
    return _section(title, ("severity", "finding", "gain", "advice", "outcome"), rows)


def _reason(result: ResultData) -> list[str]:
    said = [result.recommendation.reason, *wording.disturbances(result), *result.warnings]
    more = (wording.pays_back(result), outlook.planned(result), outlook.batches(result))
    said += [each for each in more if each]
    return [f"- {escaped(text, 500)}" for text in said if wording.shown(text)]


def _changes(result: ResultData) -> list[str]:
    rows = []
    for change in result.recommendation.changes:
        row = pages.change_row(change)
        write = [code(line, 200) for line in row.snippet.split("\n") if line.strip()]
        write += [code(variable, 200) for variable in row.environment]
        rows.append(
            (
                code(row.knob),
                code(row.before),
                code(row.after),
                row.semantics,
                row.contribution,
                " ".join(write),
            )
        )
    return _section("Changes", ("knob", "from", "to", "semantics", "contribution", "write or set"), rows)


def _facts(result: ResultData) -> list[str]:
    facts = [
        (tile.name, "; ".join(escaped(f"{when} {text}".strip(), 500) for when, text in tile.lines))
        for tile in pages.tiles(result)
    ]
    facts.append(("Noise", wording.noise(result)))
    facts.append(("Machine", escaped(_machine(result))))
    facts.append(("Search", f"{wording.states(result.trials)}; {wording.STOPPED[result.budget.stopped_by]}"))
    facts.append(("Again", code(conditions.reproduce(result), 200)))
    return _section("Measured", ("what", "value"), facts)


def _machine(result: ResultData) -> str:
    wanted = ("processor", "CPUs allowed", "GPUs", "torch")
    return ", ".join(f"{f.name} {f.text}" for f in conditions.machine(result.machine) if f.name in wanted)


def _ranks(summary: ProfileSummary) -> list[str]:
    bars = rank_chart.bars_of(summary.ranks)
    rows = [
        (escaped(bar.rank, 40), f"{wording.plain(bar.step_ms)} ms", rank_chart.parts_of(bar))
        for bar in bars[: rank_chart.MOST_LINES]
    ]
    title = "Ranks" if len(bars) == len(rows) else f"Ranks: {len(rows)} of {len(bars)}"
    table = _section(title, ("rank", "step", "parts of it"), rows)
    return [*table, "", escaped(rank_chart.sentence(bars), 1000)] if table else []


def _strategies(result: ResultData) -> list[str]:
    part = strategies_page.strategies(result)
    if part is None or not part.rows:
        return []
    rows = [
        (
            code(row.strategy),
            str(row.ranks),
            " ".join(code(setting) for setting in row.settings),
            row.ratio,
            row.semantics,
            row.numbers,
            row.sent,
        )
        for row in part.rows
    ]
    head = (
        "strategy", "ranks", "also changed", f"against one process ({part.measure})", "semantics", "numbers",
        "sent per step and rank",
    )  # fmt: skip
    said = [escaped(text, 1000) for text in (part.never, *strategies_page.curves_said(result)) if text]
    return [*_section("Strategies", head, rows), *(line for text in said for line in ("", text))]


def _scaling(result: ResultData) -> list[str]:
    found = scaling_chart.scaling(result)
    if found is None:
        return []
    points = [f"- {escaped(text)}" for text in found.said]
    return ["### Scaling", "", *points, "", escaped(found.meaning, 1000)]


def _trials(result: ResultData) -> list[str]:
    measured = [trial for trial in result.trials if trial.against_baseline]
    best = sorted(measured, key=lambda t: -(t.against_baseline.low if t.against_baseline else 0.0))[
        :MOST_TRIALS
    ]
    rows = []
    for trial in best:
        row = pages.trial_row(trial, result)
        settings = " ".join(code(setting) for setting in row.settings) or "as now"
        rows.append((str(row.number), row.stage, settings, row.ratio, row.step or wording.MISSING))
    title = (
        "Trials"
        if len(measured) == len(rows)
        else f"Trials: {len(rows)} of {len(measured)} measured, by lower bound"
    )
    return _section(title, ("trial", "stage", "changed", "against the baseline", "step"), rows)


def _failures(result: ResultData) -> list[str]:
    rows = [
        (group.cause, group.meaning, str(len(group.trials)), code(group.trials[0][2], 200))
        for group in pages.failures(result.trials)
    ]
    return _section("Failures", ("cause", "meaning", "trials", "first log"), rows)


def _proposals(result: ResultData) -> list[str]:
    rows = [
        (code(p.knob), code(p.to), wording.short_ratio(p.measured), escaped(p.reason))
        for p in result.recommendation.proposals
    ]
    return _section("Not recommended by itself", ("knob", "value", "measured", "why"), rows)


def _not_tried(result: ResultData) -> list[str]:
    rows = [
        (code(u.knob), "any" if u.value is None else code(u.value), escaped(u.reason))
        for u in result.not_tried
    ]
    return _section("Not tried", ("knob", "value", "why"), rows)


def _section(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    lines = [head, ["---"] * len(head), *rows]
    return [f"### {title}", "", *("| " + " | ".join(line) + " |" for line in lines)]
