"""The Markdown digest: verdict first, then tables; user text can neither link, mention nor break a row.

It fits a comment on a pull request: at most ten rows of a table, what is seldom read folded, whole sections
left out where it would grow above 64 KB, one hidden line by which an earlier comment is found. The last
section holds the same as JSON under stable names, see ``advisor/report/fields.py``.
"""

from collections.abc import Mapping, Sequence

from advisor.patching.patch import written
from advisor.report import fields
from advisor.report.charts import rank_chart, scaling_chart
from advisor.report.charts.device_chart import device_parts
from advisor.report.failed_trials import failures
from advisor.report.markdown import code, counted, escaped, fitted, section
from advisor.report.noise import disturbances
from advisor.report.pages import artefacts_page, findings_page, profile_page, strategies_page
from advisor.report.pages import page as pages
from advisor.report.pages.collectives_page import HEAD, collective_rows
from advisor.report.pages.kernels_page import kernels_part
from advisor.result import benches, conditions, outlook, wording
from advisor.result.document import Document, ProfileData, ProfileSummary, ResultData

MOST_TRIALS = 10
MOST_FINDINGS = 10
MOST_ROWS = 10  # of the tables that may be long
MOST_FOLDED = 40  # of those that are folded
MARKER = "<!-- advisor -->"  # one hidden line by which a comment is found again and updated
LEAVE_OUT = (
    "Not tried", "Trials", "Strategies", "Scaling", "Groups of workers", "Exchanges", "Ranks", "Failures",
    "Products", "Kernels", "One step", "On the device",
    "Not recommended by itself", "Fields", "Findings", "Measured", "Files", "Changes", "Notes", "Limits",
)  # fmt: skip
"""Sections in the order in which they are left out where the digest would be too large."""


def markdown(result: ResultData) -> str:
    """The digest of a result. Whole sections, never half a table; ends with a newline."""
    return fitted(
        [MARKER, f"**{escaped(wording.verdict(result), 1000)}**"],
        {
            "Notes": _reason(result),
            "Changes": _changes(result),
            "Files": artefacts_page.markdown(result),
            "Findings": _findings(result),
            "Measured": _facts(result),
            "Ranks": _ranks(result.profile),
            "Strategies": _strategies(result),
            "Scaling": _scaling(result),
            "Trials": _folded("Trials", _trials(result)),
            "Failures": _failures(result),
            "Not recommended by itself": _proposals(result),
            "Not tried": _folded("Not tried", _not_tried(result)),
            "Limits": _folded("Limits", [f"- {limit}" for limit in conditions.limits(result)]),
            "Fields": _folded("Fields", fields.block(result)),
        },
        LEAVE_OUT,
        "result.json",
    )


def profile_markdown(result: ProfileData) -> str:
    """The digest of a profile: what was found first, then the figures."""
    title = result.profile.summary or "One run, looked at closely"
    rows = [(tile.name, escaped(tile.text)) for tile in profile_page.tiles(result)]
    notes = [*result.warnings, *result.profile.notes]
    return fitted(
        [MARKER, f"**{escaped(title, 1000)}**"],
        {
            "Notes": _notes(notes),
            "Findings": _findings(result),
            "Measured": section("Measured", ("what", "value"), rows),
            "On the device": _step("One step, on the device", device_parts(result.profile)),
            "One step": _step("One step", result.profile.phases_ms),
            "Kernels": _step("Kernels by what they do", result.profile.kernels_ms),
            "Products": _products(result),
            "Ranks": _ranks(result.profile),
            "Exchanges": section(
                "Exchanges between ranks",
                HEAD,
                [
                    tuple(escaped(cell) if cell else "" for cell in row)
                    for row in collective_rows(result.profile)
                ],
            ),
            "Limits": _folded("Limits", [f"- {limit}" for limit in profile_page.limits(result)]),
            "Fields": _folded("Fields", fields.block(result)),
        },
        LEAVE_OUT,
        "result.json",
    )


def _step(title: str, parts: Mapping[str, float]) -> list[str]:
    """Parts of a step, longest first."""
    total = sum(parts.values())
    rows = [
        (escaped(name.replace("_", " ")), f"{wording.plain(spent)} ms", wording.share_of(spent, total))
        for name, spent in sorted(parts.items(), key=lambda item: -item[1])
        if spent > 0
    ]
    return section(title, ("part", "time", "share"), rows)


def _products(result: ProfileData) -> list[str]:
    """The largest matrix products of a device."""
    part = kernels_part(result.profile)
    rows = [
        (code(row.op), row.sizes, escaped(row.dtype), row.calls, row.time, row.tflops, row.reached)
        for row in (part.products if part is not None else ())
    ]
    head = ("operator", "m x n x k", "dtype", "calls", "time", "TFLOP/s", "of the peak")
    return section("Matrix products", head, rows)


def _notes(texts: Sequence[str]) -> list[str]:
    """The first ten as points, and how many more there are."""
    said = [text for text in texts if wording.shown(text)]
    more = [f"- {len(said) - MOST_ROWS} more are in result.json"] if len(said) > MOST_ROWS else []
    return [*(f"- {escaped(text, 500)}" for text in said[:MOST_ROWS]), *more]


def _folded(name: str, lines: list[str]) -> list[str]:
    """Lines under a summary that opens them, none without lines."""
    return [f"<details><summary>{name}</summary>", "", *lines, "", "</details>"] if lines else []


def _findings(result: Document) -> list[str]:
    found = [f for f in result.findings if f.state in ("opportunity", "diagnostic")]
    rows = []
    for finding in found[:MOST_FINDINGS]:
        row = findings_page.finding_row(finding, result if isinstance(result, ResultData) else None)
        where = code(row.place) if row.place else ""
        rows.append(
            (
                f"{row.severity} {row.kind}",
                " ".join(filter(None, (escaped(row.title), where))),
                escaped(row.gain) if row.gain else "",
                escaped(row.advice, 500) if row.advice else "",
                escaped(row.outcome) + (f"; to try it: {code(row.to_try, 200)}" if row.to_try else ""),
            )
        )
    return section(
        counted("Findings", rows, found), ("severity", "finding", "gain", "advice", "outcome"), rows
    )


def _reason(result: ResultData) -> list[str]:
    said = [result.recommendation.reason, *disturbances(result), *result.warnings]
    more = {
        "Cost": outlook.pays_back(result),
        "Your run": outlook.planned(result),
        "Batch size": outlook.batches(result),
    }
    said += [f"{name}: {text}" for name, text in more.items() if text]
    return _notes(said)


def _changes(result: ResultData) -> list[str]:
    rows, made = [], written(result)
    for change in result.recommendation.changes:
        row = pages.change_row(change, result.recommendation, made)
        write = [code(line, 200) for line in row.snippet.split("\n") if line.strip()]
        write += [f"({row.edit})"] if row.edit else []
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
    return section("Changes", ("knob", "from", "to", "semantics", "contribution", "write or set"), rows)


def _facts(result: ResultData) -> list[str]:
    facts = [
        (tile.name, "; ".join(escaped(f"{when} {text}".strip(), 500) for when, text in tile.lines))
        for tile in pages.tiles(result)
    ]
    facts.append(("Noise", wording.noise(result)))
    if told := conditions.quads(result.recommendation.speedup):
        facts.append(("How", told))
    facts.append(("Machine", escaped(_machine(result))))
    facts.append(("Search", f"{wording.states(result.trials)}; {conditions.ended(result)}"))
    facts += [(escaped(name), escaped(text, 500)) for name, text in benches.said(result.benches)]
    facts.append(("Again", code(conditions.reproduce(result), 200)))
    return section("Measured", ("what", "value"), facts)


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
    table = section(title, ("rank", "step", "parts of it"), rows)
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
    return [*section("Strategies", head, rows), *(line for text in said for line in ("", text))]


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
    return section(title, ("trial", "stage", "changed", "against the baseline", "step"), rows)


def _failures(result: ResultData) -> list[str]:
    rows = [
        (group.cause, group.meaning, str(len(group.trials)), code(group.trials[0][2], 200))
        for group in failures(result.trials)[:MOST_ROWS]
    ]
    return section("Failures", ("cause", "meaning", "trials", "first log"), rows)


def _proposals(result: ResultData) -> list[str]:
    rows = [
        (code(p.knob), code(p.to), wording.short_ratio(p.measured), escaped(p.reason, 500))
        for p in result.recommendation.proposals[:MOST_ROWS]
    ]
    return section(
        counted("Not recommended by itself", rows, result.recommendation.proposals),
        ("knob", "value", "measured", "why"),
        rows,
    )


def _not_tried(result: ResultData) -> list[str]:
    rows = [
        (code(u.knob), "any" if u.value is None else code(u.value), escaped(u.reason))
        for u in result.not_tried[:MOST_FOLDED]
    ]
    return section(counted("Not tried", rows, result.not_tried), ("knob", "value", "why"), rows)
