"""How long the windows are over which configurations with loader workers are compared."""

import math
from collections.abc import Mapping
from typing import Any

QUEUE_DEPTHS = 4  # fillings of the loader's queue, at least
LEAST_STEPS = 12
EPOCH_S = 3.0  # an epoch up to that long is measured whole; of a longer one its start is a small part


def window_steps(
    *, depth: int, slot_steps: int, step_s: float, period: int, epoch: int | None, most: int | None
) -> int:
    """Steps that are measured in one window.

    At least four fillings of the queue, so that what was fetched beforehand counts little. An epoch that is
    not long counts whole, or several: in a part of one its start, when workers start or queues are empty,
    would be missing, or have too much weight.

    Args:
        depth: How many batches the loader's workers can run ahead.
        slot_steps: Of a slot, were there no workers.
        step_s: Seconds of a step of the baseline.
        period: Steps after which the order of optimizers repeats.
        epoch: Steps of an epoch, where they are known.
        most: Steps that the program has left.
    """
    unit = period if epoch is None or epoch * step_s > EPOCH_S else math.lcm(epoch, period)
    measured = math.ceil(max(QUEUE_DEPTHS * depth, 2 * slot_steps, LEAST_STEPS) / unit) * unit
    if most is None or measured <= most:
        return measured
    return max(period, most // unit * unit or most)


def queue_depth(config: Mapping[str, Any]) -> int:
    """How many batches the loader's workers can run ahead under ``config``."""
    return int(config.get("num_workers", 0)) * int(config.get("prefetch_factor", 2) or 2)
