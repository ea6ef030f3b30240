"""A confirmation that a budget, a Ctrl-C or a crash ended is what a resumed study begins with."""

import json
import math
from collections.abc import Sequence

from advisor.keeping import Keeping
from advisor.settings import Settings
from advisor.tuners.knob import Value
from advisor.tuners.measure import (
    MIN_INSTANCES,
    MOST_INSTANCES,
    TOTAL_LEVEL,
    between,
    evidence,
    look,
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
    key = keeping.confirmed_last()
    if key is None or not is_open(keeping.earlier_instances(key), settings.min_gain, settings.confidence):
        return None
    config: dict[str, Value] = json.loads(key)
    known = config.keys() == space.present.keys() and config != space.present
    return config if known and space.check(config) is None else None


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
    if between(instances, level).low <= math.log1p(min_gain):
        return False
    decided = look(instances, min_gain, level, final=False).verdict == "confirmed"
    return not decided and evidence(instances, min_gain) < 1 / TOTAL_LEVEL
