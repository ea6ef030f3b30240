"""Windows over which configurations with loader workers are compared: how long they are, what they give."""

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from advisor.tuners.knob import Value
from advisor.tuners.trial.messages import Slot, SlotMeasured, TrialOutcome

HOPELESS = 4.0  # times the expected time, after which a slot or window ends with the steps it has
QUEUE_DEPTHS = 4  # fillings of the loader's queue, at least
LEAST_STEPS = 12
FRESH_SHARE, FRESH_S = 0.5, 3.0  # of its start, and seconds at most, that a process is measured at least
LEAST_QUIET = (4, 3.0)  # steps, and seconds of them, that suffice without workers on a quiet machine
KEPT_WINDOWS = 16  # the incumbent's is asked for again and again, those of what lost never
EPOCH_S = (
    3.0  # an epoch up to that long is measured whole; of a longer one the start is counted (restarts.py)
)


@dataclass(frozen=True)
class Window:
    """What a process gave that was measured without a pause.

    One that goes on has no outcome yet. ``unseen`` is what starting workers adds to the time of an epoch of
    which it holds no start, as a share.
    """

    slot: Slot
    message: SlotMeasured
    outcome: TrialOutcome | None = None
    startup_s: float | None = None
    unseen: float = 0.0


class KeptWindows:
    """Windows that may stand for new ones while a search screens, by configuration."""

    def __init__(self) -> None:
        self._windows: OrderedDict[str, Window] = OrderedDict()

    def __len__(self) -> int:
        return len(self._windows)

    def keep(self, config: Mapping[str, Value], window: Window) -> None:
        """Keep it, and let go of the one that was not asked for the longest if there are too many."""
        self._windows[_name(config)] = window
        if len(self._windows) > KEPT_WINDOWS:
            self._windows.popitem(last=False)

    def of(self, config: Mapping[str, Value]) -> Window | None:
        """The window of this configuration, if it is kept."""
        name = _name(config)
        if name in self._windows:
            self._windows.move_to_end(name)
        return self._windows.get(name)


def window_steps(
    *,
    depth: int,
    slot_steps: int,
    step_s: float,
    period: int,
    epoch: int | None,
    most: int | None,
    quiet: bool = False,
    least_s: float = 0.0,
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
        quiet: Its steps, compared with each other, differ by less than is ever told apart.
        least_s: Seconds at least, by steps of the baseline.
    """
    fewest, seconds = LEAST_QUIET
    usual = max(fewest, min(LEAST_STEPS, math.ceil(seconds / step_s))) if quiet else LEAST_STEPS
    least = max(QUEUE_DEPTHS * depth, 2 * slot_steps, usual, math.ceil(least_s / step_s))
    part = epoch is None or (epoch * step_s > EPOCH_S and epoch > least)
    unit = period if part else math.lcm(epoch or 1, period)
    measured = math.ceil(least / unit) * unit
    if most is None or measured <= most:
        return measured
    return max(period, most // unit * unit or most)


def _name(config: Mapping[str, Value]) -> str:
    return repr(sorted(config.items()))


def queue_depth(config: Mapping[str, Value]) -> int:
    """How many batches the loader's workers can run ahead under ``config``."""
    return int(config.get("num_workers", 0)) * int(config.get("prefetch_factor", 2) or 2)
