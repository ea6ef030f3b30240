"""The log of trials while a study runs: the list of this run, the store, and the progress display."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from advisor.base.fault_points import hit
from advisor.base.settings import Progress
from advisor.result.document import MOST_LOSSES, Interval, Loss, RankUse, Rate, Ratio, Trial
from advisor.result.outlook import first_compile_s
from advisor.storage.store import Store
from advisor.tuners.comparing.measure import Estimate, median, within
from advisor.tuners.comparing.pair_places import Where
from advisor.tuners.knob import Value
from advisor.tuners.search.measured import Measured
from advisor.tuners.search.record import TrialRecord
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.trial.messages import Slot, TrialOutcome

# What is stored and shown as it was measured, under the same name.
AS_MEASURED = (Trial.model_fields.keys() & TrialRecord.__dataclass_fields__.keys()) - {"against_baseline"}
WIDEST = 20.0  # log ratio; an interval without an upper end is written as this


@dataclass
class TrialLog:
    """Keeps every trial of one run, and in the store if there is one.

    Attributes:
        baseline: The configuration that others are shown against.
        deadline: Monotonic time at which the search ends, for the display.
        sampled: Work is counted in samples (else in steps).
        measured: What the study holds of each configuration; the processes of a confirmation are added.
        kept: Called after each trial.
        preface: Said once, before the next trial that begins.
        confirmed: Log ratio of what was confirmed so far.
    """

    progress: Progress
    clock: Callable[[], float]
    deadline: float
    store: Store | None = None
    study: str = ""
    baseline: Configuration = field(default_factory=lambda: Configuration({}))
    measured: Measured = field(default_factory=Measured)
    sampled: bool = True
    trials: list[Trial] = field(default_factory=list)
    kept: Callable[[], None] = lambda: None
    preface: str = ""
    confirmed: float = 0.0
    _begun: dict[int, TrialRecord] = field(default_factory=dict)

    def first_compile_s(self, config: Mapping[str, Value]) -> float | None:
        """The longest compilation of what ``config`` compiles that a trial has seen."""
        return first_compile_s(config, self.trials)

    def begin(self, trial: TrialRecord, score: float) -> None:
        """Note that a trial runs, so that it is not lost when we are killed."""
        if self.preface:
            self.progress.say(self.preface)
            self.preface = ""
        changed = trial.config.changed(self.baseline)
        text = ", ".join(f"{name}={value}" for name, value in changed.items()) or "the baseline"
        doubt = " (unconfirmed)" if score > self.confirmed else ""
        best = f"{math.exp(score):.2f}x{doubt}" if score > 0 else "the baseline"
        self.progress.trial(trial.number, text, best, max(0.0, self.deadline - self.clock()))
        self._begun[trial.number] = trial
        if self.store is not None:
            hit("begin.before")
            self.store.begin(self.study, trial.number, trial.config, trial.stage)
            hit("begin.after")

    def record(self, trial: TrialRecord, *, asked: int | None = None, value: float | None = None) -> None:
        """Keep a finished trial; when this returns it is acknowledged."""
        kept = as_trial(trial, self.sampled)
        self._begun.pop(trial.number, None)
        self.trials.append(kept)
        if self.store is not None:
            hit("commit.before")
            self.store.record(self.study, kept, asked=asked, value=value)
            hit("commit.after")
        self.kept()

    def interrupted(self, why: str = "interrupted") -> None:
        """Keep trials that ran when the run had to stop as killed ones; Optuna is told so too."""
        begun = list(self._begun.values())
        for trial in begun:
            trial.state, trial.cause, trial.message = "failed", "killed", why
            self.record(trial)
        if begun and self.store is not None:
            self.store.reap(self.study)

    def keep_instance(
        self, number: int, config: Configuration, ratios: list[float], where: Where | None = None
    ) -> None:
        """Keep the log ratios of one process of a confirmation, and where it was one of several nodes."""
        self.measured.add_instance(config, ratios, where)
        if self.store is not None:
            data: dict[str, Any] = {"key": config.key, "instances": [ratios]}
            if where is not None:
                data["where"] = [list(where)]
            self.store.save_comparison(self.study, number, "confirm", data)

    def keep_contributions(
        self, number: int, config: Configuration, contributions: Mapping[str, Estimate]
    ) -> None:
        """Keep what each change of a configuration gives, for when its confirmation goes on."""
        finite = {name: each for name, each in contributions.items() if math.isfinite(each.low)}
        if not finite:
            return
        self.measured.contributions[config] = finite
        if self.store is not None:
            told = {name: asdict(each) for name, each in finite.items()}
            self.store.save_comparison(
                self.study, number, "ablate", {"key": config.key, "contributions": told}
            )


def as_trial(record: TrialRecord, sampled: bool) -> Trial:
    """A trial as it is stored and shown."""
    outcome = record.outcome
    losses, ranks = outcome.losses if outcome is not None else (), _ranks(outcome)
    return Trial(
        **{name: getattr(record, name) for name in AS_MEASURED},
        step_ms=step_interval(record.slots) if record.slots else None,
        throughput=rate(record.slots, sampled) if record.slots else None,
        goodput=_goodput(record, sampled),
        peak_bytes=None if outcome is None else outcome.highest_bytes,
        loss=as_loss(losses) if losses else None,
        losses=spread(losses) if ranks is not None else [],
        ranks=ranks,
        against_baseline=None if record.against_baseline is None else as_ratio(record.against_baseline),
        compile_s=None if outcome is None else outcome.compile.seconds or None,
    )


def spread(losses: Sequence[float]) -> list[float | None]:
    """At most as many losses as a result keeps, evenly spread, the first and the last among them."""
    count = min(len(losses), MOST_LOSSES)
    places = [round(at * (len(losses) - 1) / max(1, count - 1)) for at in range(count)]
    return [losses[at] if math.isfinite(losses[at]) else None for at in places]


def _ranks(outcome: TrialOutcome | None) -> RankUse | None:
    """What several workers told at their end."""
    if outcome is None or not outcome.ranks:
        return None
    first = dict(outcome.ranks[0])
    sent = first.pop("bytes_per_step", None)
    return RankUse(count=len(outcome.ranks), bytes_per_step=sent, report=first)


def _goodput(record: TrialRecord, sampled: bool) -> Interval | None:
    """Samples per second, each counted for what it is worth."""
    if record.efficiency is None or not record.slots:
        return None
    speed = rate(record.slots, sampled)
    return Interval(
        estimate=speed.estimate * record.efficiency,
        low=speed.low * record.efficiency,
        high=speed.high * record.efficiency,
    )


def as_ratio(estimate: Estimate) -> Ratio:
    """A log ratio as a ratio with finite bounds."""
    low, centre, high = (
        math.exp(max(-WIDEST, min(WIDEST, value)))
        for value in (estimate.low, estimate.estimate, estimate.high)
    )
    return Ratio(
        estimate=centre,
        low=low,
        high=high,
        quads=estimate.quads,
        instances=estimate.instances,
        confidence=estimate.level,
    )


def step_interval(slots: list[Slot], level: float = 0.99) -> Interval:
    """Milliseconds of a step: median over slots with its interval."""
    values = [sum(slot.step_s) / len(slot.step_s) * 1e3 for slot in slots]
    return _interval(values, level)


def rate(slots: list[Slot], sampled: bool, level: float = 0.99) -> Rate:
    """Work per second over slots."""
    values = [1 / slot.seconds_per_unit for slot in slots]
    return Rate(**_interval(values, level).model_dump(), unit="samples/s" if sampled else "steps/s")


def as_loss(losses: tuple[float, ...]) -> Loss:
    """First and last of the losses seen; what is not finite is left out."""
    first, last = losses[0], losses[-1]
    return Loss(
        first=first if math.isfinite(first) else None,
        last=last if math.isfinite(last) else None,
        steps=len(losses),
    )


def _interval(values: list[float], level: float) -> Interval:
    if len(values) < 3:
        return Interval(estimate=median(values), low=min(values), high=max(values))
    estimate = within(values, level)
    return Interval(
        estimate=estimate.estimate, low=max(estimate.low, min(values)), high=min(estimate.high, max(values))
    )
