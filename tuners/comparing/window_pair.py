"""Two windows side by side: one of each configuration, the more disturbed of them measured anew."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from advisor.tuners.comparing.excluded import disturbance, more_disturbed, set_apart
from advisor.tuners.comparing.ways import WINDOWS
from advisor.tuners.comparing.windows import KeptWindows, Window
from advisor.tuners.knob import Value

if TYPE_CHECKING:
    from advisor.tuners.comparing.duel import Arena

AGAIN = 3  # times at most that the more disturbed of two windows in fresh processes is measured anew


def window_pair(
    arena: "Arena",
    how: str,
    arms: tuple[Mapping[str, Value], Mapping[str, Value]],
    swapped: bool,
    kept: KeptWindows | None,
    take: Callable[[Mapping[str, Value]], Window],
) -> tuple[Window, Window]:
    """The windows of both arms; steps and quads that something disturbed are counted in the arena.

    Args:
        arena: Holds a process that goes on, and knows its threads.
        how: ``windows`` or ``switched``.
        arms: The one that others are compared with, and the candidate.
        swapped: The candidate comes first.
        kept: Earlier windows; one of the first arm stands for a new one.
        take: Measures the window of a configuration.

    Raises:
        SessionEnded, TrialFailed: As of ``take``.
    """
    windows: dict[int, Window] = {}

    def measure(arm: int) -> None:
        config = arms[arm]
        if arm == 0 and 1 in windows and how == WINDOWS:
            windows[1] = arena.held.make_room(windows[1])
        windows[arm] = take(config)
        arena.excluded.update(set_apart([windows[arm].slot]))
        if kept is not None:
            kept.keep(config, windows[arm])

    for arm in (1, 0) if swapped else (0, 1):
        known = kept.of(arms[0]) if kept is not None and arm == 0 else None
        if known is None:
            measure(arm)
        else:
            windows[arm] = known
    again = AGAIN if how == WINDOWS else 1  # workers of a process that repeats itself run ahead
    for _ in range(again if arena.timed else 0):  # where all are disturbed, they are taken as they come
        reason = disturbance([windows[0].slot], [windows[1].slot], arena.threads)
        if reason is None:
            break
        arena.excluded[reason] += 1
        arm = more_disturbed([windows[0].slot], [windows[1].slot])
        before = windows[arm]
        measure(arm)
        if more_disturbed([before.slot], [windows[arm].slot]):
            windows[arm] = before
            if kept is not None:
                kept.keep(arms[arm], before)
    return windows[0], windows[1]
