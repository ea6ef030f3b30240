"""What the trials of a search tell of batch sizes: their throughput over the present one."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from advisor.result.document import Ratio, Trial
from advisor.tuners.comparing.batches.batch_throughput import Measured
from advisor.tuners.comparing.measure import Estimate

SEARCHED = ("screen", "search")  # ratios of a confirmation hold what a sample is worth, too
APART = ("batch_size", "lr_scaling")


def tried_batches(trials: Iterable[Trial], baseline: Mapping[str, Any]) -> list[Measured]:
    """Each other batch that was measured, beside a trial with all else the same; the smallest first.

    Where a batch was tried beside several settings, those of the baseline count, and else those that were
    measured longest: a gain of other changes is none of the batch.

    Args:
        trials: Of the search; the baseline among them or not.
        baseline: Its configuration.
    """
    present, own = baseline["batch_size"], _rest(baseline)
    beside: dict[frozenset[tuple[str, Any]], float] = {own: 0.0}
    larger: list[tuple[Trial, Ratio]] = []
    for trial in trials:
        ratio = trial.against_baseline
        if ratio is None or trial.stage not in SEARCHED or trial.state == "failed":
            continue
        if trial.config.get("batch_size") == present:
            beside.setdefault(_rest(trial.config), math.log(ratio.estimate))
        else:
            larger.append((trial, ratio))
    best: dict[int, tuple[tuple[bool, int], Measured]] = {}
    for trial, ratio in larger:
        rest, batch = _rest(trial.config), int(trial.config["batch_size"])
        if rest not in beside:
            continue
        rank = (rest == own, ratio.quads)
        if batch not in best or rank > best[batch][0]:
            rule = str(trial.config.get("lr_scaling", "none"))
            best[batch] = rank, Measured(batch, rule, _as_estimate(ratio).shifted(-beside[rest]))
    return [best[batch][1] for batch in sorted(best)]


def _rest(config: Mapping[str, Any]) -> frozenset[tuple[str, Any]]:
    return frozenset((name, value) for name, value in config.items() if name not in APART)


def _as_estimate(ratio: Ratio) -> Estimate:
    centre, low, high = map(math.log, (ratio.estimate, ratio.low, ratio.high))
    return Estimate(centre, low, high, ratio.confidence, ratio.quads, ratio.instances)
