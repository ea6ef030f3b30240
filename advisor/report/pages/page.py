"""What a report shows, part by part, as text and drawings ready to be placed by a template."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.patching.patch import Written
from advisor.report.bottleneck import Moved, moved
from advisor.report.charts import charts
from advisor.report.charts.charts import Bar, Chart
from advisor.report.charts.device_chart import device_bar, device_parts
from advisor.report.charts.rank_chart import RankPicture, rank_picture
from advisor.report.charts.share_chart import Limits, limits_part, rates, sheet
from advisor.report.charts.step_chart import step_bar
from advisor.report.charts.tradeoff_chart import TradeOff, tradeoff
from advisor.report.failed_trials import Failures, failures
from advisor.report.next_step import Command, commands, environment, next_step
from advisor.report.noise import disturbances, winner
from advisor.report.pages import artefacts_page, latency_page
from advisor.report.pages.effects_page import EffectsPart, effects
from advisor.report.pages.findings_page import FindingGroups, groups
from advisor.report.pages.kernels_page import Kernels, kernels_part
from advisor.report.pages.strategies_page import StrategiesPart, strategies
from advisor.result import outlook, wording
from advisor.result.conditions import Fact, conditions, limits, machine, memory_compared, quads, reproduce
from advisor.result.document import Adopted, Interval, ProfileSummary, Recommendation, ResultData, Trial
from advisor.result.wording import shown, shown_block
from advisor.result.words import NUMERICS, SEMANTICS

MOST_ROWS = 2000  # what a browser sorts at once; the rest is in result.json
UNNAMED = "(unnamed)"
OTHER_WORK = (
    "batch_size",
    "serving_batch",
    "accumulation",
    "strategy",
    "ranks",
)  # make a step do something else
NOWHERE = Written()


@dataclass(frozen=True)
class Tile:
    """One figure at the top, as ``(when, text)`` lines: now, and changed."""

    name: str
    lines: list[tuple[str, str]]


@dataclass(frozen=True)
class ChangeRow:
    """One change of the recommendation; ``environment`` holds ``NAME=value``, quoted for a shell.

    ``edit`` says where the change is written into the program, if it is; ``snippet`` is then that edit's,
    with what is still to be written beside it.
    """

    knob: str
    before: str
    after: str
    semantics: str
    meaning: str
    contribution: str
    snippet: str
    edit: str
    environment: list[str]


@dataclass(frozen=True)
class TrialRow:
    """One trial. The ``_value`` fields are what a column is sorted by; ``None`` stands last."""

    number: int
    stage: str
    state: str
    cause: str | None
    settings: list[str]
    ratio: str
    ratio_value: float | None
    step: str
    step_value: float | None
    memory: str
    memory_value: float | None
    notes: list[str]


@dataclass(frozen=True)
class Legend:
    """One part of the step in the legend of its bar."""

    name: str
    text: str
    colour: str
    pattern: str


@dataclass(frozen=True)
class Page:
    """Everything a report shows; a template only places it."""

    target: str
    sentence: str
    headline: str
    found: bool
    reason: str
    pays_back: str | None
    planned: str | None
    batches: str | None
    next_step: str
    commands: list[Command]
    quads: str
    memory_compared: str
    reproduce: str
    disturbances: list[str]
    warnings: list[str]
    tiles: list[Tile]
    changes: list[ChangeRow]
    patch: str
    artefacts: list[artefacts_page.ArtefactRow]
    before_after: list[Chart]
    confirmed: bool
    device: Chart | None
    device_legend: list[Legend]
    step: Chart
    legend: list[Legend]
    moved: Moved | None
    periodic: list[Fact]
    ranks: RankPicture | None
    machine_limits: Limits | None
    rates: list[Fact]
    rates_from: str
    findings: FindingGroups
    kernels: Kernels | None
    strategies: StrategiesPart | None
    trials: list[TrialRow]
    trials_total: int
    summary: str
    progress: Chart | None
    failures: list[Failures]
    tradeoff: TradeOff | None
    effects: EffectsPart | None
    proposals: list[tuple[str, str, str, str]]
    not_tried: list[tuple[str, str, str]]
    conditions: list[Fact]
    machine: list[Fact]
    limits: list[str]


def page(result: ResultData, patch: str, prefix: str = "", written: Written = NOWHERE) -> Page:
    """Everything that ``result`` says, in the order of the report.

    Args:
        result: What ``tune`` found.
        patch: Text of ``changes.patch``.
        prefix: Put before every id of a drawing, so that several results fit on one page.
        written: What ``changes.patch`` edits.
    """
    found = result.recommendation
    return Page(
        target=shown(result.target.path) or UNNAMED,
        sentence=wording.sentence(result),
        headline=wording.headline(result),
        found=found.verdict == "change",
        reason=shown(found.reason, 1000),
        pays_back=outlook.pays_back(result),
        planned=outlook.planned(result),
        batches=outlook.batches(result),
        next_step=_without_ticks(next_step(result)),
        commands=commands(result, editable=bool(written.knobs) or not written.is_known),
        quads=quads(found.speedup),
        memory_compared=memory_compared(result),
        reproduce=reproduce(result),
        disturbances=disturbances(result),
        warnings=[text for text in (shown(warning, 500) for warning in result.warnings) if text],
        tiles=tiles(result),
        changes=[change_row(change, found, written) for change in found.changes],
        patch=patch,
        artefacts=artefacts_page.rows(result),
        before_after=_before_after(result, prefix),
        confirmed=winner(result) is not None,
        device=device_bar(f"{prefix}device", result.profile),
        device_legend=legend(device_parts(result.profile)),
        step=step_bar(f"{prefix}step", result.profile.phases_ms, result.profile.phases_after_ms),
        legend=legend(result.profile.phases_ms, result.profile.phases_after_ms),
        moved=moved(result.profile, _gain_of_step(result)),
        periodic=periodic(result.profile),
        ranks=rank_picture(f"{prefix}rank-times", result.profile.ranks),
        machine_limits=limits_part(result.profile, prefix),
        rates=rates(result.profile),
        rates_from=sheet(result.profile),
        findings=groups(result.findings, result),
        kernels=kernels_part(result.profile),
        strategies=strategies(result, prefix),
        trials=[trial_row(trial, result) for trial in result.trials[:MOST_ROWS]],
        trials_total=len(result.trials),
        summary=wording.states(result.trials),
        progress=_progress(result, prefix),
        failures=failures(result.trials),
        tradeoff=tradeoff(f"{prefix}trade-off", result),
        effects=effects(result),
        proposals=[
            (
                shown(p.knob) or UNNAMED,
                wording.setting(p.to),
                wording.ratio(p.measured),
                _with_snippet(p.reason, p.snippet),
            )
            for p in found.proposals
        ],
        not_tried=[
            (
                shown(u.knob) or UNNAMED,
                "any" if u.value is None else wording.setting(u.value),
                shown(u.reason, 500),
            )
            for u in result.not_tried
        ],
        conditions=conditions(result),
        machine=machine(result.machine),
        limits=limits(result),
    )


def _without_ticks(text: str) -> str:
    """The sentence whose command is not marked as code here; names keep what they hold."""
    return text.replace("`", "", 2) if text.startswith("`") else text


def change_row(change: Adopted, found: Recommendation, written: Written = NOWHERE) -> ChangeRow:
    """One row of the table of changes."""
    is_edited, rest = change.knob in written.knobs, written.unwritten.get(change.knob, "")
    edited = "\n".join(filter(None, (written.lines, rest)))
    return ChangeRow(
        knob=shown(change.knob) or UNNAMED,
        before=wording.setting(change.from_),
        after=wording.setting(change.to),
        semantics=change.semantics,
        meaning=f"{SEMANTICS[change.semantics]}; {_numbers_of(change, found)}",
        contribution=wording.ratio(change.contribution),
        snippet=shown_block(edited if is_edited else change.snippet),
        edit=f"{'the rest ' if rest else ''}as in changes.patch" if is_edited else "",
        environment=environment(change),
    )


def _numbers_of(change: Adopted, recommendation: Recommendation) -> str:
    """What is known about the numbers under one change; which of them rounds is told by its semantics."""
    rounds = change.semantics != "exact" and wording.is_rounded(recommendation)
    return wording.ROUNDED if rounds and change.numerics == "identical" else NUMERICS[change.numerics]


def tiles(result: ResultData) -> list[Tile]:
    """The few figures at the top: what it was, and what the recommended setting measured."""
    found, now = result.recommendation, result.baseline
    after = winner(result) if found.verdict == "change" else None
    rates = [now.throughput, *([after.throughput] if after and after.throughput else [])]
    steps = [now.step_ms, *([after.step_ms] if after and after.step_ms else [])]
    of_rates, of_steps = _finest(rates), _finest(steps)
    throughput = [("now", wording.rate(now.throughput, of_rates))]
    step = [("now", wording.interval(now.step_ms, "ms", of_steps))]
    memory = [("now", wording.mib(now.peak_bytes))]
    if after:
        throughput.append(("changed", wording.rate(after.throughput, of_rates)))
        step.append(("changed", wording.interval(after.step_ms, "ms", of_steps)))
        memory.append(("changed", _memory_after(after, found)))
    if found.verdict == "change":
        last = Tile("Numbers the model computes", [("", wording.numerics(found))])
    else:
        last = Tile("Last comparison", [("", wording.ratio(found.speedup))])
    times = Tile(f"Time of a {latency_page.unit(result)}", latency_page.rows(result) or step)
    arrivals = latency_page.under_limit(result)
    waiting = [Tile("Requests that arrive at random", arrivals)] if arrivals else []
    return [Tile("Throughput", throughput), times, *waiting, Tile("Peak memory", memory), last]


def _gain_of_step(result: ResultData) -> Interval | None:
    """How much faster a step is, where it does the same work as before."""
    changed = {change.knob for change in result.recommendation.changes}
    is_time = result.objective in ("goodput", "throughput", "latency", "requests")
    return result.recommendation.speedup if is_time and changed.isdisjoint(OTHER_WORK) else None


def _finest(values: Sequence[Interval]) -> int:
    """The decimals of figures that stand below each other: as many as the narrowest interval bears."""
    return max(
        (wording.decimals(value.low, value.high) for value in values if not wording.undetermined(value)),
        default=0,
    )


def _memory_after(after: Trial, found: Recommendation) -> str:
    """The change that the verdict tells, or without one the peak of the confirmation.

    Never both: the change comes of runs of equal length, the peaks of processes that lived differently long,
    so beside each other they may differ in sign.
    """
    if found.memory_ratio is not None:
        return wording.memory(found.memory_ratio).removeprefix("peak memory ").replace(" in peak memory", "")
    return wording.mib(after.peak_bytes)


def legend(phases: Mapping[str, float], after: Mapping[str, float] | None = None) -> list[Legend]:
    """The parts of a step, longest first; of both steps where there are two."""
    parts = {
        phase: max(phases.get(phase, 0.0), (after or {}).get(phase, 0.0))
        for phase in {**phases, **(after or {})}
    }
    return [
        Legend(charts.phase_words(phase), _spent(phase, phases, after), *charts.phase_style(phase))
        for phase, ms in sorted(parts.items(), key=lambda item: -item[1])
        if ms > 0
    ]


def _spent(phase: str, *steps: Mapping[str, float] | None) -> str:
    """``16.2 ms, 42 %``, and the same of the step after the change."""
    told = []
    for step in steps:
        if step is not None:
            spent = step.get(phase, 0.0)
            told.append(f"{wording.plain(spent)} ms, {wording.share_of(spent, sum(step.values()))}")
    return "; after: ".join(told)


def trial_row(trial: Trial, result: ResultData) -> TrialRow:
    """One row of the table of trials."""
    ratio = trial.against_baseline
    return TrialRow(
        number=trial.number,
        stage=trial.stage,
        state=trial.state,
        cause=trial.cause,
        settings=wording.differences(trial.config, result.baseline.config),
        ratio=wording.short_ratio(ratio) if ratio else "",
        ratio_value=ratio.estimate if ratio else None,
        step=wording.interval(trial.step_ms, "ms") if trial.step_ms else "",
        step_value=trial.step_ms.estimate if trial.step_ms else None,
        memory=wording.mib(trial.peak_bytes) if trial.peak_bytes else "",
        memory_value=trial.peak_bytes or None,
        notes=_notes(trial),
    )


def _before_after(result: ResultData, prefix: str) -> list[Chart]:
    after = winner(result) if result.recommendation.verdict == "change" else None
    now = result.baseline
    rates = [Bar("now", now.throughput, present=True)]
    if after and after.throughput and after.throughput.unit == now.throughput.unit:
        rates.append(Bar("changed", after.throughput))
    steps = [Bar("now", now.step_ms, present=True)]
    if after and after.step_ms:
        steps.append(Bar("changed", after.step_ms))
    of = f"Time of a {latency_page.unit(result)}, smaller is better"
    return [
        charts.before_after(
            f"{prefix}throughput", "Throughput, larger is better", now.throughput.unit, rates
        ),
        charts.before_after(f"{prefix}step-time", of, "ms", steps),
    ]


def _progress(result: ResultData, prefix: str) -> Chart | None:
    if not any(trial.against_baseline for trial in result.trials):
        return None
    return charts.progress(f"{prefix}progress", result.trials, result.noise.smallest_detectable)


def periodic(summary: ProfileSummary) -> list[Fact]:
    """What comes beside the steps, and how long it took in the watched run."""
    facts = [
        Fact(f"{charts.phase_words(name)} in the watched run", wording.seconds(spent))
        for name, spent in summary.periodic_s.items()
        if spent > 0
    ]
    epoch = summary.epoch_s
    return [*facts, Fact("one epoch", wording.seconds(epoch))] if epoch is not None else facts


def _notes(trial: Trial) -> list[str]:
    notes = [shown(mark, 80).replace("_", " ") for mark in trial.marks]
    if trial.compile_s:
        notes.append(f"compiled in {wording.seconds(trial.compile_s)}")
    notes += [f"{shown(knob, 80)} refused: {shown(reason)}" for knob, reason in trial.refused.items()]
    return [*notes, shown(trial.message)] if trial.message else notes


def _with_snippet(reason: str, snippet: str) -> str:
    return f"{shown(reason, 500)} ({shown(snippet, 500)})" if snippet else shown(reason, 500)
