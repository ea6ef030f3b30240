"""What a result means for the user's own training: its time and cost, compilation, other batch sizes."""

import math
from collections.abc import Iterable, Mapping

from advisor.result import wording
from advisor.result.document import BatchSizes, Interval, ResultData, Trial, Value
from advisor.tuners.mechanisms.compiling import NEED_COMPILE, compiles

COMPILED = ("execution", *NEED_COMPILE)


def planned(result: ResultData) -> str | None:
    """``an epoch takes 12 s (11 s to 13 s) instead of 17 s; 1000 steps ...``; ``None`` if unknown."""
    run = result.planned
    if run is None:
        return None
    said = []
    if run.epoch_s is not None:
        said.append(f"an epoch takes {_instead(run.epoch_s, run.changed_epoch_s)}")
    if run.seconds is not None and run.steps is not None:
        fewer = run.changed_steps is not None and run.changed_steps != run.steps
        steps = (
            f"{run.steps} steps ({run.changed_steps} of the larger batch)" if fewer else f"{run.steps} steps"
        )
        said.append(f"{steps} take {_instead(run.seconds, run.changed_seconds)}")
    if run.cost is not None:
        now = f"{run.cost:.2f}"
        said.append(
            f"at {run.price_per_hour:g} an hour that costs "
            + (now if run.changed_cost is None else f"{run.changed_cost:.2f} instead of {now}")
        )
    return "; ".join(said) or None


def batches(result: ResultData) -> str | None:
    """What other batch sizes would give, and which is the largest that fits; ``None`` if nothing is known."""
    known = result.batch
    if known is None:
        return None
    said = []
    if known.fastest_ratio is not None:
        ratio = wording.short_ratio(known.fastest_ratio)
        said.append(f"batch size {known.fastest} is the fastest measured: {ratio}")
    noise_scale = _noise_scale(known)
    if noise_scale is not None:
        scale = f"gradient noise scale {noise_scale}"
        best = known.best_goodput
        said.append(scale if best is None else f"by goodput {best} is best ({scale})")
    if known.said:
        said.append(wording.shown(known.said, 300))
    return "; ".join(said) or None


def pays_back(result: ResultData) -> str | None:
    """What compilation costs before it pays, or ``None`` when nothing is compiled.

    The first time is the longest that was seen of this setting: that compiles what every later one finds.
    """
    found = result.recommendation
    cold, warm, steps = found.compile_cold_s, found.compile_warm_s, found.break_even_steps
    if cold is None:
        return f"pays back after {steps} steps" if steps else None
    first = max(cold, first_compile_s(found.config, result.trials) or 0.0)
    parts = [f"{wording.seconds(first)} of compilation the first time"]
    if warm is not None:
        parts.append(f"{wording.seconds(warm)} on a warm start")
    if steps and cold > 0:
        of_warm = "" if warm is None else f" ({math.ceil(steps * warm / cold)} on a warm start)"
        parts.append(f"pays back after {math.ceil(steps * first / cold)} steps{of_warm}")
    return ", ".join(parts)


def first_compile_s(config: Mapping[str, Value], trials: Iterable[Trial]) -> float | None:
    """The longest compilation that trials with what ``config`` compiles have seen; ``None`` without one."""
    seen = [
        trial.compile_s
        for trial in trials
        if trial.compile_s and all(trial.config.get(name) == config.get(name) for name in COMPILED)
    ]
    return max(seen, default=None) if compiles(config) else None


def _instead(now: float, changed: Interval | None) -> str:
    if changed is None:
        return wording.seconds(now)
    low, high = wording.seconds(changed.low), wording.seconds(changed.high)
    return f"{wording.seconds(changed.estimate)} ({low} to {high}) instead of {wording.seconds(now)}"


def _noise_scale(known: BatchSizes) -> str | None:
    if known.noise_scale_at_least is not None:
        return f"at least {wording.plain(known.noise_scale_at_least)} samples"
    if known.noise_scale is None:
        return None
    value = known.noise_scale
    low, middle, high = map(wording.plain, (value.low, value.estimate, value.high))
    return f"{middle} samples, {low} to {high}"
