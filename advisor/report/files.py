"""The faces of a result: one offline page, a Markdown digest, plain text, a fragment for notebooks."""

import base64
import hashlib
import re
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from advisor.base.atomic_file import write_atomically
from advisor.base.errors import EnvironmentProblem, clean
from advisor.patching.patch import changes_patch, written
from advisor.report import artefacts_page, digest, latency_page, strategies_page
from advisor.report.charts import rank_chart
from advisor.report.findings_page import groups, rest_lines
from advisor.report.folder import FILES, check_folder, reason
from advisor.report.lines import wrapped
from advisor.report.next_step import next_step
from advisor.report.noise import disturbances
from advisor.report.page import change_row, page
from advisor.report.profile_page import profile_page
from advisor.result import benches, outlook, wording
from advisor.result.conditions import ended, quads, reproduce
from advisor.result.document import ProfileData, ResultData

if TYPE_CHECKING:
    from jinja2 import Environment

CODE = re.compile(r"(`+)([^`\n]+)\1")


def render_html(result: ResultData | ProfileData) -> str:
    """The report as one HTML file that needs nothing else: no request, styles and script inside."""
    if isinstance(result, ProfileData):
        return rendered("profile.html.j2", profile_page(result))
    return rendered("report.html.j2", page(result, changes_patch(result), written=written(result)))


def rendered(template: str, content: object) -> str:
    """A whole page: the template with its content, styles and script."""
    script = _asset("report.js")
    digest_of_script = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _templates()
        .get_template(template)
        .render(
            page=content,
            style=Markup(_asset("palette.css") + _asset("report.css")),
            script=Markup(script),
            script_digest=digest_of_script,
        )
    )


def render_fragment(result: ResultData | ProfileData) -> str:
    """Verdict, changes or findings, and the bar of one step as HTML without script, for notebooks.

    Stays under 200 KB.
    """
    prefix = f"advisor-{hashlib.sha256(result.to_json().encode()).hexdigest()[:8]}-"
    palette = _asset("palette.css").replace(":root", ".advisor-result")
    template, content = (
        ("profile_fragment.html.j2", profile_page(result, prefix))
        if isinstance(result, ProfileData)
        else ("fragment.html.j2", page(result, "", prefix=prefix))
    )
    return (
        _templates()
        .get_template(template)
        .render(page=content, style=Markup(palette + _asset("fragment.css")))
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
        f"{wording.states(result.trials)}; {ended(result)}; the whole run took "
        f"{wording.seconds(result.budget.seconds)}",
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
    for row in rows:
        place = f" ({row.place})" if row.place and row.place not in row.title else ""
        lines.append(f"  {row.title}{place}: {row.outcome}")
    return lines + rest_lines(found, everything=everything, in_python=result.target.kind == "objects")


def _asset(name: str) -> str:
    return resources.files("advisor.templates").joinpath(name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _templates() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("advisor.templates", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_harmless,
    )
    environment.filters["prose"] = prose
    return environment


def prose(text: str) -> Markup:
    """Text in which what stands between backticks is code; all of it is escaped first."""
    return Markup(CODE.sub(r"<code>\2</code>", str(escape(wording.shown_block(text, 200_000)))))


def _harmless(value: Any) -> Any:
    """A net under ``shown``: whatever text reaches a template carries no control characters."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return wording.shown_block(value, 200_000)
    return value
