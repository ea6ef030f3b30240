"""The faces of a result: one offline page, a Markdown digest, plain text, a fragment for notebooks."""

import hashlib
from pathlib import Path

from markupsafe import Markup

from advisor.base.atomic_file import write_atomically
from advisor.base.errors import EnvironmentProblem, clean
from advisor.patching.patch import changes_patch, written
from advisor.report import digest
from advisor.report.charts import rank_chart
from advisor.report.folder import FILES, check_folder, reason
from advisor.report.lines import wrapped
from advisor.report.next_step import next_step
from advisor.report.noise import disturbances
from advisor.report.pages import artefacts_page, latency_page, strategies_page
from advisor.report.pages.findings_page import groups, rest_lines, told_once
from advisor.report.pages.page import change_row, page
from advisor.report.pages.profile_page import profile_page
from advisor.report.rendering import asset, rendered, templates
from advisor.result import benches, outlook, wording
from advisor.result.conditions import ended, quads, reproduce, took
from advisor.result.document import ProfileData, ResultData


def render_html(result: ResultData | ProfileData) -> str:
    """The report as one HTML file that needs nothing else: no request, styles and script inside."""
    if isinstance(result, ProfileData):
        return rendered("profile.html.j2", profile_page(result))
    return rendered("report.html.j2", page(result, changes_patch(result), written=written(result)))


def render_fragment(result: ResultData | ProfileData) -> str:
    """Verdict, changes or findings, and the bar of one step as HTML without script, for notebooks.

    Stays under 200 KB.
    """
    prefix = f"advisor-{hashlib.sha256(result.to_json().encode()).hexdigest()[:8]}-"
    palette = asset("palette.css").replace(":root", ".advisor-result")
    template, content = (
        ("profile_fragment.html.j2", profile_page(result, prefix))
        if isinstance(result, ProfileData)
        else ("fragment.html.j2", page(result, "", prefix=prefix))
    )
    return (
        templates().get_template(template).render(page=content, style=Markup(palette + asset("fragment.css")))
    )


def render_markdown(result: ResultData | ProfileData) -> str:
    """The digest for a pull request or a step summary."""
    if isinstance(result, ProfileData):
        return digest.profile_markdown(result)
    return digest.markdown(result)


def render_text(
    result: ResultData, width: int, folder: str | None = None, *, everything: bool = False
) -> str:
    """The result for a terminal, without colour codes: verdict, changes, what was found, baseline, next step.

    Args:
        result: What ``tune`` found.
        width: Longest line, at least 20 characters.
        folder: Where the report lies; by default where the command that made it wrote it.
        everything: List rules that passed and that do not apply, too.
    """
    lines = [wording.verdict(result), *_reasons(result), *_changes(result)]
    lines += artefacts_page.lines(result)
    lines += _found(result, everything=everything)
    lines += [*strategies_page.lines(result), ""]
    baseline = result.baseline
    lines += [
        f"Baseline: {wording.interval(baseline.step_ms, 'ms')} a {latency_page.unit(result)}, "
        f"{wording.rate(baseline.throughput)}, peak memory {wording.mib(baseline.peak_bytes)}",
        *latency_page.lines(result),
        *rank_chart.lines(result.profile.ranks),
        f"Noise: {wording.noise(result)}",
        *filter(None, [quads(result.recommendation.speedup)]),
        *disturbances(result),
        f"{wording.states(result.trials)}; {ended(result)}; {took(result)}",
        *(
            f"{wording.shown(name)}: {wording.shown(text, 500)}"
            for name, text in benches.said(result.benches)
        ),
        *(f"warning: {wording.shown(warning, 500)}" for warning in result.warnings),
    ]
    for proposal in result.recommendation.proposals:
        lines.append(
            f"Not recommended by itself: {wording.shown(proposal.knob)}={wording.shown(proposal.to)}, "
            f"{wording.short_ratio(proposal.measured)}: {wording.shown(proposal.reason, 500)}"
        )
    lines += ["", f"Next: {next_step(result, folder)}", f"Again: {reproduce(result)}"]
    return wrapped(lines, width)


def write_report(result: ResultData | ProfileData, folder: Path) -> list[Path]:
    """Write ``report.html``, ``result.json``, ``report.md`` and ``changes.patch``, each at once.

    A profile changes nothing and has no patch; one left by an earlier report is removed. Everything is
    rendered before the first file is replaced. Returns the paths in that order.

    Raises:
        UsageError: ``folder`` is not one that a report may be written to.
        EnvironmentProblem: It cannot be written to; files not yet replaced are as they were.
    """
    check_folder(folder)
    contents = {
        "result.json": result.to_json(),
        "report.html": render_html(result),
        "report.md": render_markdown(result),
    }
    if isinstance(result, ResultData):
        contents["changes.patch"] = changes_patch(result)
    try:
        folder.mkdir(exist_ok=True)
        for name, content in contents.items():
            write_atomically(folder / name, content)
        for name in set(FILES) - contents.keys():
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise EnvironmentProblem(f"cannot write to {clean(str(folder))}", cause=reason(error)) from None
    return [folder / name for name in FILES if name in contents]


def _reasons(result: ResultData) -> list[str]:
    reason, cost = wording.shown(result.recommendation.reason, 1000), outlook.pays_back(result)
    planned, batches = outlook.planned(result), outlook.batches(result)
    said = (reason, cost, planned and f"Your run: {planned}", batches and f"Batch size: {batches}")
    return [line for line in said if line]


def _changes(result: ResultData) -> list[str]:
    lines = []
    made = written(result)
    for row in (change_row(each, result.recommendation, made) for each in result.recommendation.changes):
        lines.append(f"  {row.knob}: {row.before} -> {row.after} ({row.semantics}), {row.contribution}")
        lines += [f"      {line}" for line in row.snippet.split("\n") if line]
        lines += [f"      ({row.edit})"] if row.edit else []
        lines += [f"      export {variable}" for variable in row.environment]
    return ["", "Changes", *lines] if lines else []


def _found(result: ResultData, *, everything: bool) -> list[str]:
    found = groups(result.findings, result)
    rows = [*found.opportunities, *found.diagnostics]
    lines = ["", "Found"] if rows else []
    for row in rows if everything else told_once(rows):
        place = f" ({row.place})" if row.place and row.place not in row.title else ""
        lines.append(f"  {row.title}{place}: {row.outcome}")
    return lines + rest_lines(found, everything=everything, in_python=result.target.kind == "objects")
