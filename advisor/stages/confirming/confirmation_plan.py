"""How much each process of a confirmation measures, and how long the whole of it will take."""

import math

from advisor.base.settings import Settings
from advisor.stages.baseline import Baseline
from advisor.stages.confirming.longer_run import TIMES
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.looks import MIN_INSTANCES
from advisor.tuners.comparing.measure import LEAST_INSIDE, planned_quads
from advisor.tuners.comparing.percentiles import least_requests
from advisor.tuners.comparing.ways import BATON, LIVE
from advisor.tuners.search.costs import Costs

INSTANCE_SHARE = 0.004  # of the budget, measured per instance and arm
INSTANCE_S = (0.5, 2.0)  # its bounds
MAX_QUADS = 12
PAIRS = 6  # of a small effect, over which its quads are spread; larger ones need fewer
LARGE_SPEED = 1.25  # that one quad of a pair tells, where noise does not ask for more
SHOWN_GAIN = 0.25  # of the gain that the search saw: looks of it flatter
INSIDE_SHARE = 0.15  # of the budget at most, to know the spread within pairs that take turns
TAIL_SHARE = 0.25  # of the budget at most, for requests of which a tail can be told
AMPLE = 10  # times these: the more, the nearer its bound
AMPLE_SHARE = 0.1  # of the budget at most, for more than the least
RESERVE_SHARE = 0.7
END_S = 0.3  # to end a process tree
LOOKS_COST = 1.7  # times the quads of a single look (measurement.md, section 3)


def instance_quads(
    arena: Arena, settings: Settings, startup_s: float = 0.0, speed: float = 1.0, how: str = ""
) -> int:
    """Quads of one instance of a confirmation: what noise and gain ask for, up to two measured seconds.

    Where starting takes longer than measuring, or two processes take turns, at least as many as show the
    spread within the instance: with that known, fewer pairs tell the same gain.

    Args:
        arena: Knows a step and its noise.
        settings: Budget and least gain.
        startup_s: Seconds of a start.
        speed: Of the candidate over the program as it is, as the search saw it: part of its gain has to show.
        how: The way of comparing.
    """
    shortest, longest = INSTANCE_S
    wanted_s = max(shortest, min(longest, INSTANCE_SHARE * settings.budget_s))
    slot_s = arena.steps() * arena.step_s
    delta = max(settings.min_gain, SHOWN_GAIN * (speed - 1))
    planned = math.ceil(LOOKS_COST * planned_quads(arena.sigma, delta) / PAIRS)
    inside = min(LEAST_INSIDE, int(startup_s / arena.quad_s))
    if how == BATON and MIN_INSTANCES * LEAST_INSIDE * arena.quad_s <= INSIDE_SHARE * settings.budget_s:
        inside = LEAST_INSIDE
    usual = 1 if how == LIVE and speed >= LARGE_SPEED else Costs(arena).pair_quads
    least = max(usual, inside)
    limited = settings.latency_limit_s is not None
    shares = (0.99, 0.9) if limited else (0.99,) if settings.objective == "latency" else ()
    most = settings.budget_s / (MIN_INSTANCES * arena.quad_s)
    affordable = [quads for share in shares if (quads := tail_quads(arena, share)) <= TAIL_SHARE * most]
    if affordable:
        ample = min(max(MAX_QUADS, AMPLE * affordable[0]), int(AMPLE_SHARE * most))
        least = max(least, affordable[0], ample)
    return max(least, min(MAX_QUADS, planned, round(wanted_s / (2 * slot_s))))


def tail_quads(arena: Arena, share: float = 0.99) -> int:
    """Quads of a pair of which the first look's pairs together bound a percentile of requests."""
    return math.ceil(least_requests(share) / (2 * MIN_INSTANCES * arena.steps()))


def reserve_s(arena: Arena, baseline: Baseline, settings: Settings) -> float:
    """Seconds that reduction, gate and confirmation of an average nominee will need, at most 70 %."""
    launch = baseline.startup_s + END_S + 8 * arena.step_s
    slot = (arena.steps() + 1) * arena.step_s
    instance = 1.5 * launch + 4 * instance_quads(arena, settings, baseline.startup_s) * slot
    if arena.queue_depth(arena.present) > 0:
        starts = 1 if arena.start_together(arena.present, arena.present) else 2
        steps_s = sum(arena.window_steps(arena.present, fresh=True)) * arena.step_s
        instance = max(instance, starts * launch + 2 * steps_s)
    gate_s = 5 * (launch + min(gate.STEPS, 10) * arena.step_s)
    reduction_s = 2 * launch + 16 * slot
    longer_s = TIMES / 2 * instance  # one of its two arms
    needed_s = PAIRS * instance + gate_s + reduction_s + longer_s
    return min(RESERVE_SHARE * settings.budget_s, needed_s)
