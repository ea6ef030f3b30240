"""What a report shows of strategies: how they compare with one process, how they scale, what was left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from advisor.report.charts import loss_chart
from advisor.report.charts.charts import Chart
from advisor.report.charts.parallel import (
    SINGLE,
    changes_learning,
    count_of,
    ran,
    ranks_in_words,
    semantics_of,
    settings_of_strategies,
    strategy_of,
)
from advisor.report.charts.scaling_chart import Scaling, scaling
from advisor.result import wording
from advisor.result.conditions import as_json
from advisor.result.document import Interval, Ratio, ResultData, Trial, Value
from advisor.result.wording import shown
from advisor.result.words import GAINS, NUMERICS, SEMANTICS
from advisor.tuners.space.configuration import Configuration

MOST_CURVES = 6
MOST_NAME = 40
NOT_ALONE = "one process was not measured"
UNKNOWN = "not known to this version"
NEVER = (
    "Under {names} what is learnt can differ. They were measured because they were named, and are ranked "
    "apart; none of them is ever recommended unless --allow training is given."
)
NEVER_ONE = (
    "Under {names} what is learnt can differ. It was measured because it was named, and is ranked apart; "
    "it is never recommended unless --allow training is given."
)
CURVES = (
    "A few steps only: they show whether a loss falls alike, not what is learnt in the end. The samples "
    "may come in another order."
)

Part = tuple[str, int]
"""A strategy and how many ranks it had."""


@dataclass(frozen=True)
class StrategyRow:
    """One strategy with so many ranks: the trial that tells most about it.

    Attributes:
        settings: What else differs from the baseline.
        ratio: Against one process, or why that is not known.
        numbers: What is known about the numbers it computes.
        sent: Bytes that each rank sends per step.
        told: What else it reported.
        batch: The arithmetic by which the global batch is kept.
        training: What is learnt can differ.
    """

    strategy: str
    ranks: int
    settings: list[str]
    ratio: str
    semantics: str
    meaning: str
    numbers: str
    sent: str
    told: str
    batch: str
    training: bool
    trial: int


@dataclass(frozen=True)
class StrategiesPart:
    """Everything a page shows of strategies.

    Attributes:
        measure: What the ratios are ratios of.
        never: Said of strategies under which learning differs.
    """

    measure: str
    rows: list[StrategyRow]
    never: str
    curves: list[Chart]
    curves_note: str
    not_tried: list[tuple[str, str]]
    scaling: Scaling | None

    @property
    def said(self) -> str:
        """How much was tried, in a sentence."""
        count, several = len(self.rows), sum(row.ranks > 1 for row in self.rows)
        return (
            f"{count} combination{'' if count == 1 else 's'} of strategy and number of ranks tried, "
            f"{several} of them with several ranks."
        )


def strategies(result: ResultData, prefix: str = "") -> StrategiesPart | None:
    """The strategies of a search; ``None`` where nothing but one process was tried or left out by name.

    Args:
        result: What ``tune`` found.
        prefix: Put before every id in a drawing.
    """
    chosen = _chosen(result)
    tried = any(strategy != SINGLE for strategy, _ in chosen)
    not_tried = left_out(result)
    if not tried and not not_tried:
        return None
    rows = strategy_rows(result) if tried else []
    learning = [trial for trial in chosen.values() if _shows_losses(trial)]
    curves = [
        loss_chart.losses_beside(f"{prefix}losses-{at}", _name(trial), _of_baseline(result), _curve(trial))
        for at, trial in enumerate(learning[:MOST_CURVES])
    ]
    note = CURVES if curves else ""
    if len(learning) > MOST_CURVES:
        note += f" Drawn are {MOST_CURVES} of {len(learning)}; all are in result.json."
    return StrategiesPart(
        measure(result), rows, never(rows), curves, note, not_tried, scaling(result, prefix)
    )


def measure(result: ResultData) -> str:
    """What ratios to one process are ratios of: goodput is throughput, since the batch is kept."""
    return GAINS["throughput" if result.objective == "goodput" else result.objective]


def strategy_rows(result: ResultData) -> list[StrategyRow]:
    """Every strategy that was tried with each number of ranks; those that change learning stand last."""
    chosen = _chosen(result)
    alone = chosen.get((SINGLE, 1))
    ratios = {part: against_single(trial, alone, result) for part, trial in chosen.items()}

    def order(part: Part) -> tuple[bool, bool, float]:
        trial, ratio = chosen[part], ratios[part]
        at = 1.0 if trial is alone else 0.0 if ratio is None else ratio.estimate
        return changes_learning(trial.config), not ran(trial), -at

    return [_row(chosen[part], ratios[part], alone, result) for part in sorted(chosen, key=order)]


def against_single(trial: Trial, alone: Trial | None, result: ResultData) -> Interval | None:
    """The ratio to one process, where both were compared with the baseline.

    Args:
        trial: Any trial.
        alone: The trial of one process that it is compared with.
        result: Both are of it.
    """
    own, other = _to_baseline(trial, result), None if alone is None else _to_baseline(alone, result)
    if own is None or other is None or other.low <= 0 or trial is alone:
        return None
    if other.low == other.high == 1:
        return own
    return Interval(
        estimate=own.estimate / other.estimate, low=own.low / other.high, high=own.high / other.low
    )


def never(rows: Sequence[StrategyRow]) -> str:
    """That changes of learning are not recommended by themselves; empty where there are none."""
    names = list(dict.fromkeys(row.strategy for row in rows if row.training))
    if not names:
        return ""
    return (NEVER_ONE if len(names) == 1 else NEVER).format(names=", ".join(names))


def left_out(result: ResultData) -> list[tuple[str, str]]:
    """Strategies that were not tried, with the reason."""
    return [
        (wording.setting(entry.value), shown(entry.reason, 500))
        for entry in result.not_tried
        if entry.knob == "strategy" and entry.value is not None
    ]


def lines(result: ResultData) -> list[str]:
    """The same for a terminal, in short; none where there is nothing to tell."""
    part = strategies(result)
    if part is None:
        return []
    said = [f"  {short(row)}" for row in part.rows]
    said += [f"  not tried: {name}: {reason}" for name, reason in part.not_tried]
    found = ["", f"Strategies against one process ({part.measure})", *said]
    if part.never:
        found.append(part.never)
    found += [f"Losses: {curve}" for curve in curves_said(result)]
    if part.scaling is not None:
        found.append(f"Scaling: {'; '.join(part.scaling.said)}. {part.scaling.meaning}")
    return found


def short(row: StrategyRow) -> str:
    """``ddp, 2 ranks: 1.08x (1.02 to 1.14), rounding, numbers not checked, 5.10 MiB sent per step ...``."""
    said = [row.ratio, row.semantics, row.numbers]
    if row.sent:
        said.append(f"{row.sent} sent per step and rank")
    if row.batch:
        said.append(f"batch {row.batch}")
    return f"{row.strategy}, {ranks_in_words(row.ranks)}: {', '.join(text for text in said if text)}"


def curves_said(result: ResultData) -> list[str]:
    """First and last losses of strategies under which learning differs, beside the baseline's."""
    return [
        loss_chart.said(_name(trial), _of_baseline(result), _curve(trial))
        for trial in _chosen(result).values()
        if _shows_losses(trial)
    ]


def amount(count: float | None) -> str:
    """Bytes as MiB with three digits, since strategies differ by powers of ten; empty where not known."""
    if count is None:
        return ""
    size = count / wording.MIB
    return f"{wording.plain(size)} MiB" if size >= 0.0001 or size == 0 else "under 0.0001 MiB"


def _chosen(result: ResultData) -> dict[Part, Trial]:
    """For each strategy and number of ranks the trial that says most about it.

    Measured before failed ones, then those that change least beside the strategy, complete ones, those
    confirmed on fresh processes, and the faster ones.
    """
    own = settings_of_strategies()

    def order(trial: Trial) -> tuple[bool, int, bool, bool, float]:
        beside = _beside(trial.config, result.baseline.config, own)
        ratio = _to_baseline(trial, result)
        return (
            not ran(trial), len(beside), trial.state != "complete",
            trial.stage not in ("baseline", "confirm", "ablate"), -(ratio.low if ratio else 0.0),
        )  # fmt: skip

    chosen: dict[Part, tuple[tuple[bool, int, bool, bool, float], Trial]] = {}
    for trial in result.trials:
        part, rank = (strategy_of(trial.config), count_of(trial)), order(trial)
        if part not in chosen or rank < chosen[part][0]:
            chosen[part] = rank, trial
    return {part: trial for part, (_, trial) in chosen.items()}


def _row(trial: Trial, ratio: Interval | None, alone: Trial | None, result: ResultData) -> StrategyRow:
    semantics = semantics_of(trial.config)
    report = {} if trial.ranks is None else trial.ranks.report
    settings = wording.differences(trial.config, result.baseline.config)
    return StrategyRow(
        strategy=shown(strategy_of(trial.config), MOST_NAME) or "(unnamed)",
        ranks=count_of(trial),
        settings=[text for text in settings if not text.startswith(("strategy=", "ranks="))],
        ratio=_ratio(trial, ratio, alone),
        semantics=UNKNOWN if semantics is None else semantics.value,
        meaning="" if semantics is None else SEMANTICS[semantics.value],
        numbers=_numbers(trial, result),
        sent="" if trial.ranks is None else amount(trial.ranks.bytes_per_step),
        told=shown(", ".join(_told(name, value) for name, value in report.items()), 300),
        batch=shown(report.get("global_batch", ""), 80),
        training=ran(trial) and changes_learning(trial.config),
        trial=trial.number,
    )


def _ratio(trial: Trial, ratio: Interval | None, alone: Trial | None) -> str:
    if trial.state == "failed":
        return f"failed: {wording.cause(trial) or 'no reason was kept'}"
    if not ran(trial):
        return f"refused: {shown(trial.refused.get('strategy') or trial.refused.get('ranks'), 300)}"
    if trial is alone:
        return "what the others are compared with"
    if alone is None:
        return NOT_ALONE
    if ratio is None:
        return wording.MISSING
    return wording.short_ratio(ratio) + (", dropped early" if trial.state == "pruned" else "")


def _told(name: str, value: Any) -> str:
    """``buckets 3``, ``parameter 12.1 MiB``."""
    words = shown(name, 40).replace("_", " ")
    if name.endswith("_bytes") and isinstance(value, int | float):
        return f"{words.removesuffix(' bytes')} {amount(value)}"
    return f"{words} {as_json(value)}"


def _numbers(trial: Trial, result: ResultData) -> str:
    """What is known of the numbers under the strategy: compared only for what is recommended."""
    found = result.recommendation
    if not ran(trial):
        return ""
    if dict(trial.config) == dict(result.baseline.config):
        return "numbers of the baseline"
    same = all(trial.config.get(name) == found.config.get(name) for name in ("strategy", "ranks"))
    if found.verdict == "change" and same:
        change = next((change for change in found.changes if change.knob == "strategy"), None)
        return NUMERICS[found.numerics if change is None else change.numerics]
    return NUMERICS["not_checked"]


def _to_baseline(trial: Trial, result: ResultData) -> Interval | None:
    """Its throughput over the baseline's; the baseline itself is 1 without doubt."""
    if not ran(trial):
        return None
    if trial.stage == "baseline" or dict(trial.config) == dict(result.baseline.config):
        return Ratio(estimate=1.0, low=1.0, high=1.0)
    return trial.against_baseline


def _beside(config: Mapping[str, Value], baseline: Mapping[str, Value], own: set[str]) -> list[str]:
    """Settings of other knobs that differ from the baseline's."""
    return [name for name in Configuration(config).changed(baseline) if name not in own]


def _shows_losses(trial: Trial) -> bool:
    return ran(trial) and changes_learning(trial.config) and bool(trial.losses)


def _name(trial: Trial) -> str:
    """``local_sgd, 2 ranks``."""
    return f"{shown(strategy_of(trial.config), MOST_NAME) or '(unnamed)'}, {ranks_in_words(count_of(trial))}"


def _curve(trial: Trial) -> loss_chart.Curve:
    return loss_chart.curve_of(trial.losses, 0 if trial.loss is None else trial.loss.steps)


def _of_baseline(result: ResultData) -> loss_chart.Curve:
    """Losses of the baseline, of the trial where they were kept there."""
    for trial in result.trials:
        if trial.stage == "baseline" and trial.losses:
            return _curve(trial)
    return loss_chart.curve_of(result.baseline.losses, result.baseline.loss.steps)
