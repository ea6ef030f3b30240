"""How many steps each part of a close look takes: of long steps no more than the rules need."""

import math
from dataclasses import dataclass

from advisor.profiles.hooks.recorder import LEAST_STEPS, MOST_STEPS
from advisor.tuners.comparing.replay import PARTS, Effort

USUAL, ALONE, FEW = 30, 10, 3  # clean steps watched at least: of long steps 10, those made earlier among them
WATCHED_S = 2.0  # at least; half of it where earlier steps count
GROWING = (80, 4.0)  # steps that show a growth of memory, where they take no more than these seconds
INSPECTED = (2, 12)  # steps at least and at most
INSPECTED_S = 1.5  # in which hot lines are sampled often enough
SAMPLED_S = 0.6  # at least: 120 samples; half of it where earlier steps count
RECORDED_S = 0.2  # beyond the least steps, of a shared process
LONG_S = 0.1  # from here on a step is long: one of them is a block of a replay
WINDOWS = (2, 3)  # tried, of long steps and of others
THREAD_STEPS = (1, 5)  # timed with one thread


@dataclass(frozen=True)
class LookPlan:
    """Numbers of steps of one look.

    Attributes:
        watched: Clean steps at least.
        watched_s: Seconds of them at least.
        epochs: Whether the ends of epochs are waited for.
        inspected: Steps looked at closely.
        sampled: Steps before them in which hot lines alone are met, where those are too short to meet any.
        recorded: Steps of the timed window of torch.profiler, at most.
        windows: Timed windows, at most.
        one_thread: Steps timed with one thread.
        effort: Of replays.
        parts: What is replayed, unless it is pointless.
    """

    watched: int
    watched_s: float
    epochs: bool
    inspected: int
    sampled: int
    recorded: int
    windows: int
    one_thread: int
    effort: Effort
    parts: tuple[str, ...]


def look_plan(step_s: float, *, earlier: int = 0) -> LookPlan:
    """The plan for a program whose steps take ``step_s`` seconds.

    Rules that judge times need 10 clean steps (measured before in the same process, or watched), those on
    memory 50 after 20, and a replay three pairs for its interval. Other batch sizes are judged by their mean
    alone.

    Args:
        step_s: Seconds of a normal step.
        earlier: Clean steps of a process that was measured before and goes on afterwards: they count, and
            what no rule asks for is left out. 0 for one that is looked at by itself.
    """
    shared = earlier > 0
    long, (fewest, most) = step_s >= LONG_S, INSPECTED
    left_out = ("forward_only", "half_batch") if long else ("forward_only",)
    watched = min(USUAL, max(FEW, ALONE - earlier, round(WATCHED_S / step_s)))
    if shared and not long:
        steps, seconds = GROWING
        watched = max(watched, min(steps, int(seconds / step_s)))
    if long:
        effort = Effort(block_s=0.0, rounds=(3, 3), sizes=(1, 1) if shared else (2, 2))
    elif shared:
        effort = Effort(block_s=0.06, rounds=(3, 5), sizes=(2, 3), extra_s=1.0)
    else:
        effort = Effort()
    inspected = max(fewest, min(most, math.ceil(INSPECTED_S / step_s)))
    return LookPlan(
        watched=watched,
        watched_s=WATCHED_S / 2 if shared else WATCHED_S,
        epochs=not shared,
        inspected=inspected,
        sampled=max(0, math.ceil((SAMPLED_S / 2 if shared else SAMPLED_S) / step_s) - inspected),
        recorded=max(LEAST_STEPS, math.ceil(RECORDED_S / step_s)) if shared or long else MOST_STEPS,
        windows=WINDOWS[0] if long else WINDOWS[1],
        one_thread=THREAD_STEPS[0] if long else THREAD_STEPS[1],
        effort=effort,
        parts=tuple(name for name in PARTS if not shared or name not in left_out),
    )
