"""A profile for a terminal: what was found, where, and how much it could give at most."""

from collections.abc import Mapping

from advisor.report.charts.device_chart import device_parts
from advisor.report.charts.rank_chart import lines as rank_lines
from advisor.report.lines import wrapped
from advisor.report.next_step import tune_command
from advisor.report.pages import latency_page
from advisor.report.pages.collectives_page import collective_lines
from advisor.report.pages.findings_page import FindingRow, finding_row, groups, rest_lines, told_once
from advisor.report.pages.kernels_page import kernels_part
from advisor.report.pages.profile_page import tiles
from advisor.result import wording
from advisor.result.conditions import reproduce
from advisor.result.document import ProfileData
from advisor.result.wording import shown

BAR = 24  # characters of the longest bar
MOST_KERNELS = 5
NAME = 13  # of the names of parts, at least


def render_profile(result: ProfileData, width: int, *, everything: bool = False) -> str:
    """The profile as plain text; no colour codes.

    Args:
        result: What ``profile`` found.
        width: Longest line, at least 20 characters.
        everything: List rules that passed and that do not apply, too.
    """
    found = groups(result.findings)
    lines = [shown(result.profile.summary, 300) or "One run, looked at closely"]
    figures = [f"{tile.name}: {tile.text}" for tile in tiles(result)]
    unit = latency_page.unit(result)
    device = _step(f"One {unit}, on the device:", device_parts(result.profile))
    host = _step(f"One {unit}, on the host:" if device else f"One {unit}:", result.profile.phases_ms)
    kernels = _step(f"Kernels of one {unit}, by what they do:", result.profile.kernels_ms)
    ranks, exchanges = rank_lines(result.profile.ranks), collective_lines(result.profile)
    for part in (figures, device, host, kernels, ranks, exchanges):
        lines += ["", *part] if part else []
    fired = [finding_row(f) for f in result.findings if f.state in ("opportunity", "diagnostic")]
    for number, row in enumerate(fired if everything else told_once(fired), 1):
        lines += ["", *_finding(number, row)]
    if not fired:
        lines += ["", "No rule found anything to change."]
    single = _kernels(result)
    lines += ["", *single] if single else []
    lines += rest_lines(found, everything=everything, in_python=result.target.kind == "objects")
    said = [f"Failed while checking: {row.rule}: {row.title}" for row in found.errors]
    said += [f"warning: {shown(text, 500)}" for text in [*result.warnings, *result.profile.notes]]
    lines += ["", *said] if said else []
    lines += ["", _next(result), f"Again: {reproduce(result)}"]
    return wrapped(lines, width)


def _step(title: str, parts: Mapping[str, float]) -> list[str]:
    spent = {name: ms for name, ms in parts.items() if ms > 0}
    total, longest = sum(spent.values()), max(spent.values(), default=1.0)
    if not spent:
        return []
    names = {name: shown(name, 40).replace("_", " ") for name in spent}
    width = max(NAME, *map(len, names.values()))
    return [title] + [
        f"  {names[name]:<{width}} {wording.plain(ms):>8} ms {wording.share_of(ms, total):>11}  "
        f"{'#' * max(1, round(BAR * ms / longest))}"
        for name, ms in sorted(spent.items(), key=lambda item: -item[1])
    ]


def _kernels(result: ProfileData) -> list[str]:
    part = kernels_part(result.profile)
    if part is None or not part.kernels:
        return []
    lines = ["Kernels that take most:"]
    for row in part.kernels[:MOST_KERNELS]:
        rates = [
            f"{row.tflops} TFLOP/s" if row.tflops else "",
            f"{row.gb_per_s} GB/s" if row.gb_per_s else "",
        ]
        reached = f"{row.reached} of {row.bound}" if row.reached else ""
        told = ", ".join(filter(None, (row.time, f"{row.calls} calls", *rates, reached)))
        of = f" ({row.op})" if row.op else ""
        lines.append(f"  {row.name}{of}{f' in {row.place}' if row.place else ''}: {told}")
    return [*lines, *(f"  {text}" for text in part.said)]


def _finding(number: int, row: FindingRow) -> list[str]:
    where = f" ({row.place})" if row.place and row.place not in row.title else ""
    lines = [f"{number}. [{row.severity} {row.kind}] {row.title}{where}"]
    if row.gain:
        lines.append(f"   {row.gain}")
    if row.advice:
        lines.append(f"   {row.advice}")
    tried = f"; tried by {', '.join(row.knobs)}" if row.knobs else ""
    cause = f"; a cause of {row.cause_of}" if row.cause_of else ""
    lines.append(f"   rule {row.rule}{cause}{tried}")
    return lines


def _next(result: ProfileData) -> str:
    knobs = [knob for f in result.findings if f.state in ("opportunity", "diagnostic") for knob in f.knobs]
    if result.target.kind == "trace":
        return "Next: `advisor profile` on the program itself runs the rules that abstained."
    if not knobs:
        return "Next: `advisor rules ID` shows the page of a rule."
    if result.target.kind == "objects":
        return "Next: `advisor.tune(model=..., dataset=..., ...)` tries what can be tried and measures it."
    return f"Next: `{tune_command(result)}` tries what can be tried and measures it."
