"""Confirmations of a resumed study: the one left open comes first, one that was made is not taken back."""

import json
import math
from collections.abc import Sequence

from advisor.keeping import Keeping
from advisor.result import ResultData
from advisor.settings import Settings
from advisor.tuners.knob import Value
from advisor.tuners.measure import (
    MIN_INSTANCES,
    MOST_INSTANCES,
    TOTAL_LEVEL,
    between,
    decided,
    evidence,
    median,
)
from advisor.tuners.space import Space


def left_open(keeping: Keeping, space: Space, settings: Settings) -> dict[str, Value] | None:
    """The configuration whose confirmation an earlier part of the study left open, if it may still be tried.

    Args:
        keeping: Of the resumed study.
        space: What may be tried now.
        settings: Level and least gain.
    """
    key = next(iter(keeping.confirmations()), None)
    if (
        key is None
        or keeping.failed_to_confirm(key)
        or not is_open(keeping.earlier_instances(key), settings.min_gain, settings.confidence)
    ):
        return None
    return _known(key, space)


def made(keeping: Keeping, space: Space, settings: Settings) -> dict[str, Value] | None:
    """The configuration that the study confirmed last, if it may still be tried and has not been now."""
    ended = [trial for trial in keeping.trials if trial.stage == "confirm" and trial.cause != "killed"]
    tried = [dict(trial.config) for trial in ended]
    for key in keeping.confirmations():
        instances = keeping.earlier_instances(key)
        decision = decided(instances, min_gain=settings.min_gain, level=settings.confidence)
        config = _known(key, space)
        if decision is not None and decision.verdict == "confirmed" and config and config not in tried:
            return config
    return None


def standing(result: ResultData, keeping: Keeping, space: Space, settings: Settings) -> ResultData:
    """A result of a study that came to no decision now, with what an earlier part of it recommended.

    Args:
        result: What is known now.
        keeping: Of the resumed study.
        space: What may be tried now.
        settings: Level and least gain, by which the recommendation must still hold.
    """
    earlier = None if keeping.store is None else keeping.store.result(keeping.study)
    if earlier is None or result.recommendation.verdict == "change":
        return result
    found = earlier.recommendation
    if found.verdict != "change" or made(keeping, space, settings) != found.config:
        return result
    return result.model_copy(update={"recommendation": found, "planned": earlier.planned})


def is_open(instances: Sequence[Sequence[float]], min_gain: float, level: float) -> bool:
    """Whether processes speak for a gain above ``min_gain``, and not yet surely.

    Args:
        instances: Log ratios by process.
        min_gain: Relative gain that must be exceeded.
        level: Two-sided confidence of the interval that is shown.
    """
    if not instances or len(instances) >= MOST_INSTANCES:
        return False
    if len(instances) < MIN_INSTANCES:
        return median([median(quads) for quads in instances]) > math.log1p(min_gain)
    if decided(instances, min_gain=min_gain, level=level) is not None:
        return False
    shows_gain = between(instances, level).low > math.log1p(min_gain)
    return shows_gain and evidence(instances, min_gain) < 1 / TOTAL_LEVEL


def _known(key: str, space: Space) -> dict[str, Value] | None:
    """A stored configuration, if it is one of the space and allowed now."""
    config: dict[str, Value] = json.loads(key)
    known = config.keys() == space.present.keys() and config != space.present
    return config if known and space.check(config) is None else None
