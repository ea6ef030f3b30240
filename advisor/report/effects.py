"""What the trials of a search say about one knob at a time: its values, and how much goes with it.

The trials of a search differ in several settings at once, so what is seen here is an association.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from advisor.result.document import Ratio, ResultData, Trial, Value

FEWEST_TRIALS = 30  # completed ones, below which importance says more about luck than about a knob


@dataclass(frozen=True)
class Measured:
    """A completed trial that was compared with the baseline."""

    number: int
    config: Mapping[str, Value]
    ratio: Ratio


@dataclass(frozen=True)
class Spread:
    """Ratios under one value of a knob, from the lowest to the highest; ``present``: it is the baseline's."""

    value: Value
    ratios: tuple[Ratio, ...]
    present: bool


def measured_trials(trials: Sequence[Trial]) -> list[Measured]:
    """The completed trials with a ratio to the baseline, the baseline itself left out."""
    return [
        Measured(trial.number, trial.config, trial.against_baseline)
        for trial in trials
        if trial.number > 0 and trial.state == "complete" and trial.against_baseline is not None
    ]


def slices(result: ResultData) -> dict[str, list[Spread]]:
    """For each knob of which at least two values were measured, the ratios under each value.

    The knobs of which most trials had another value than the baseline come first.
    """
    trials, present = measured_trials(result.trials), result.baseline.config
    found = {}
    for knob in dict.fromkeys(knob for trial in trials for knob in trial.config):
        spreads = _spreads(knob, trials, present.get(knob))
        if len(spreads) > 1:
            found[knob] = spreads
    return dict(sorted(found.items(), key=lambda item: -_moved(item[1])))


def importance(result: ResultData) -> dict[str, float]:
    """Share of the spread of the ratios that goes with each knob, largest first.

    The variance between the values of a knob over the whole variance of the logarithm of the ratios, less
    what as many values give by chance (epsilon squared). Knobs that were moved together share what they do,
    so that shares do not add up. Empty below 30 completed trials.
    """
    if len(measured_trials(result.trials)) < FEWEST_TRIALS:
        return {}
    shares = {knob: _explained(spreads) for knob, spreads in slices(result).items()}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def in_order(values: Sequence[Value]) -> list[Value]:
    """Numbers by size, then names."""
    return sorted(values, key=lambda value: (isinstance(value, str), value))


def _spreads(knob: str, trials: Sequence[Measured], present: Value | None) -> list[Spread]:
    by_value: dict[Value, list[Ratio]] = {}
    for trial in trials:
        if knob in trial.config:
            by_value.setdefault(trial.config[knob], []).append(trial.ratio)
    return [
        Spread(value, tuple(sorted(by_value[value], key=lambda ratio: ratio.estimate)), value == present)
        for value in in_order(list(by_value))
    ]


def _moved(spreads: Sequence[Spread]) -> int:
    """How many trials had another value than the baseline."""
    return sum(len(spread.ratios) for spread in spreads if not spread.present)


def _explained(spreads: Sequence[Spread]) -> float:
    groups = [[math.log(r.estimate) for r in spread.ratios if r.estimate > 0] for spread in spreads]
    groups = [group for group in groups if group]
    every = [value for group in groups for value in group]
    spare = len(every) - len(groups)
    if len(groups) < 2 or spare < 1:
        return 0.0
    middle = fmean(every)
    whole = sum((value - middle) ** 2 for value in every)
    own = [fmean(group) for group in groups]
    inside = sum((value - mean) ** 2 for group, mean in zip(groups, own, strict=True) for value in group)
    by_chance = (len(groups) - 1) * inside / spare
    return max(0.0, (whole - inside - by_chance) / whole) if whole > 0 else 0.0
