"""Warm-up: steps that are made before any is compared, until their time has settled."""

from advisor.base.settings import Clock
from advisor.tuners.comparing.measure import settled
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.trial.messages import Slot

WARMUP_STEPS = 3  # of a window, at least
MOST_WINDOWS = 12
LONG_STEP_S = 0.3  # from here on a window is a single step
MOST_LONG = 6  # of such windows


def warmed_up(session: Running, period: int, budget_s: float, clock: Clock) -> tuple[list[Slot], bool]:
    """Run windows until two agree within noise: all of them, and whether they did.

    Before the first window a step is made that tells how long they are; where that is long it is one itself.

    Args:
        session: Has made its first step.
        period: Steps after which the order of optimizers repeats.
        budget_s: Seconds after which no further window is begun.
        clock: Seconds, monotonic.
    """
    began = clock()
    windows = [session.slot(1, drop=0)]
    if not _is_long(windows[0]) or period > 1:
        windows = [session.slot(_steps(windows[0], period), drop=0)]
    while not settled([window.step_s for window in windows]):
        if len(windows) >= (MOST_LONG if _is_long(windows[-1]) else MOST_WINDOWS):
            return windows, False
        if clock() - began > budget_s:
            return windows, False
        windows.append(session.slot(_steps(windows[-1], period), drop=0))
    return windows, True


def _steps(before: Slot, period: int) -> int:
    return max(1 if _is_long(before) else WARMUP_STEPS, period)


def _is_long(slot: Slot) -> bool:
    return slot.mean_s >= LONG_STEP_S
