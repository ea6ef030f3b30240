"""What the report of a profile shows, part by part: one run, nothing compared."""

from collections import Counter
from dataclasses import dataclass

from advisor.report.bottleneck import REPLAYS, replayed
from advisor.report.charts.charts import Chart
from advisor.report.charts.device_chart import device_bar, device_parts
from advisor.report.charts.rank_chart import RankPicture, rank_picture
from advisor.report.charts.share_chart import Limits, limits_part, rates, sheet
from advisor.report.charts.step_chart import step_bar
from advisor.report.next_step import tune_command
from advisor.report.pages import latency_page
from advisor.report.pages.collectives_page import HEAD, Row, collective_rows
from advisor.report.pages.findings_page import FindingGroups, groups
from advisor.report.pages.kernels_page import Kernels, kernels_part
from advisor.report.pages.page import Legend, legend, periodic
from advisor.result import wording
from advisor.result.conditions import Fact, machine, reproduce
from advisor.result.document import ProfileData
from advisor.result.wording import shown


@dataclass(frozen=True)
class OperatorRow:
    """One operator; times per step, ``share`` of the step."""

    name: str
    phase: str
    calls: str
    self_ms: str
    self_value: float
    share: str
    dtype: str
    place: str


@dataclass(frozen=True)
class ProfilePage:
    """Everything the report of a profile shows; a template only places it."""

    target: str
    headline: str
    sentence: str
    warnings: list[str]
    tiles: list[Fact]
    device: Chart | None
    device_legend: list[Legend]
    step: Chart
    legend: list[Legend]
    periodic: list[Fact]
    ranks: RankPicture | None
    collectives: list[Row]
    collective_head: Row
    findings: FindingGroups
    kernels: Kernels | None
    operators: list[OperatorRow]
    replays: list[Fact]
    machine_limits: Limits | None
    rates: list[Fact]
    rates_from: str
    conditions: list[Fact]
    machine: list[Fact]
    limits: list[str]
    tune: str
    reproduce: str


def profile_page(result: ProfileData, prefix: str = "") -> ProfilePage:
    """Everything that a profile says, in the order of the report.

    Args:
        result: What ``profile`` found.
        prefix: Put before every id of a drawing.
    """
    summary = result.profile
    return ProfilePage(
        target=shown(result.target.path) or "(unnamed)",
        headline=shown(summary.summary, 300) or "One run, looked at closely",
        sentence=_counts(result),
        warnings=[text for text in (shown(w, 500) for w in [*result.warnings, *summary.notes]) if text],
        tiles=tiles(result),
        device=device_bar(f"{prefix}device", summary),
        device_legend=legend(device_parts(summary)),
        step=step_bar(f"{prefix}step", summary.phases_ms, title="One step, by part"),
        legend=legend(summary.phases_ms),
        periodic=periodic(summary),
        ranks=rank_picture(f"{prefix}rank-times", summary.ranks),
        collectives=collective_rows(summary),
        collective_head=HEAD,
        findings=groups(result.findings),
        kernels=kernels_part(summary),
        operators=operators(result),
        replays=replays(result),
        machine_limits=limits_part(summary, prefix),
        rates=rates(summary),
        rates_from=sheet(summary),
        conditions=_conditions(result),
        machine=machine(result.machine),
        limits=limits(result),
        tune=tune_command(result) if result.target.kind in ("script", "workload") else "",
        reproduce=reproduce(result),
    )


def tiles(result: ProfileData) -> list[Fact]:
    """The few figures at the top."""
    now = result.baseline
    if now is None:
        return []
    unit = latency_page.unit(result)
    times = [] if now.latency is None else [Fact("Requests", latency_page.percentiles(now.latency))]
    return [
        Fact(f"Time of a {unit}", wording.interval(now.step_ms, "ms")),
        *times,
        Fact("Throughput", wording.rate(now.throughput)),
        Fact("Peak memory", wording.mib(now.peak_bytes)),
        Fact(f"{unit.capitalize()}s watched", str(result.profile.steps)),
    ]


def operators(result: ProfileData) -> list[OperatorRow]:
    """The operators with the largest self time."""
    step_ms = sum(result.profile.phases_ms.values())
    return [
        OperatorRow(
            name=shown(op.name, 120),
            phase=shown(op.phase),
            calls=_count(op.calls),
            self_ms=f"{wording.plain(op.self_ms)} ms",
            self_value=op.self_ms,
            share=wording.share_of(op.self_ms, step_ms) if step_ms > 0 else "",
            dtype=shown(op.dtype or ""),
            place=shown(op.location or ""),
        )
        for op in result.profile.operators
    ]


def replays(result: ProfileData) -> list[Fact]:
    """What the step costs with one part left out, and why some could not be left out."""
    found = [
        Fact(REPLAYS.get(name, shown(name)), replayed(name, share))
        for name, share in result.profile.replays.items()
    ]
    refused = [
        Fact(REPLAYS.get(name, shown(name)), f"not replayed: {shown(reason)}")
        for name, reason in result.profile.replays_refused.items()
    ]
    return found + refused


def limits(result: ProfileData) -> list[str]:
    """What was not checked, in sentences."""
    said = {
        "Nothing was tried: a ceiling says what could be gained at most, not what a change gives. "
        "`advisor tune` tries them.": True,
        "Times hold for this machine, these versions and these settings.": True,
        "A step is one request to the trained model.": latency_page.unit(result) == "request",
        "Only a trace was read: rules that need the program itself abstained.": result.target.kind == "trace",
        "Evaluation, saving and epochs count only as often as they came in the watched window.": (
            result.target.kind != "trace"
        ),
        "No operators were recorded.": not result.profile.operators,
    }
    return [text for text, applies in said.items() if applies]


def _counts(result: ProfileData) -> str:
    counts = Counter(str(finding.state) for finding in result.findings)
    words = {
        "opportunity": "opportunity" if counts["opportunity"] == 1 else "opportunities",
        "diagnostic": "diagnostic" if counts["diagnostic"] == 1 else "diagnostics",
        "passed": "passed",
        "not_applicable": "not applicable",
        "error": "failed while checking",
    }
    listed = ", ".join(f"{counts[state]} {word}" for state, word in words.items() if counts[state])
    rules = f"{len(result.findings)} rule{'' if len(result.findings) == 1 else 's'}"
    return f"{rules}: {listed}." if listed else "No rule was run."


def _conditions(result: ProfileData) -> list[Fact]:
    summary = result.profile
    facts = [
        Fact("Command", reproduce(result)),
        Fact("Target", f"{shown(result.target.path) or '(unnamed)'} ({result.target.kind})"),
        Fact("Time spent", wording.seconds(result.budget.seconds)),
    ]
    if result.target.kind != "trace":
        facts.append(Fact("Watching added to a step", wording.percent(summary.overhead)))
    recording = summary.recording
    if recording is not None:
        cost = wording.MISSING if recording.overhead is None else wording.percent(recording.overhead)
        facts += [
            Fact("Recorded", f"{recording.steps} steps, {_count(recording.events_per_step)} events each"),
            Fact("Recording added to a step", f"{cost}; taken off the times of operators"),
        ]
    seed = "" if result.seed is None else str(result.seed)
    optional = (
        ("Digest of the target", result.target.digest),
        ("Created", result.created),
        ("Seed", seed),
        ("advisor", result.advisor_version),
    )
    return facts + [Fact(name, text) for name, told in optional if (text := shown(told))]


def _count(value: float) -> str:
    """How often per step: whole unless it differs from step to step."""
    text = wording.plain(value)
    return text.rstrip("0").rstrip(".") if "." in text else text
