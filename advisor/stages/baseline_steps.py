"""How many steps the unchanged program is measured for: of long ones as many as the budget has room for."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.base.durations import as_option
from advisor.base.errors import UsageError
from advisor.base.settings import Settings
from advisor.base.unit import Unit
from advisor.profiles.derived.step_phases import phases_of
from advisor.profiles.facts.profile import StepPhases
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.measure import quad_log_ratio, robust_sigma
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.trial.messages import Facts, Slot

AA_QUADS = (5, 24)  # of requests: at least, at most
AA_SHARE = 0.08  # of the budget
MOST_SHARE = 0.2  # of it, that slots in a row and the least quads may take; beyond, there are no quads
MOST_SLOTS = 20  # in a row, where there are no quads beyond them
LEAST_SLOTS = 5  # in a row: two quads that overlap
FLOOR = 0.02  # relative; what one pair of processes cannot tell apart even on a quiet machine
QUIET = (8, 1.3)  # quads, and times their spread: below the floor, more of them change nothing that follows
IN_A_ROW = QUIET[0] + 3  # slots that make so many quads
STEPS_TO_TELL = 100  # of a run that confirms a large gain: baseline, one look, numbers, two pairs
STARTS_TO_TELL = 5  # of its processes


@dataclass(frozen=True)
class Unchanged:
    """What the unchanged program gave.

    Attributes:
        slots: All of them.
        compared: Those that ``log_ratios``, of it over itself, were made of.
        facts: What its first steps showed: it may end while it is compared.
    """

    phases: StepPhases
    slots: list[Slot]
    compared: list[Slot]
    log_ratios: list[float]
    facts: Facts


@dataclass(frozen=True)
class BaselinePlan:
    """What is measured of the unchanged program once it is warm.

    Attributes:
        slots: In a row, without a pause between them: they tell the parts of a step, and the noise.
        quads: In which it is compared with itself beyond them, where they are not quiet; 0 for none.
    """

    slots: int
    quads: int = 0


def baseline_plan(arena: Arena, settings: Settings) -> BaselinePlan:
    """The plan for a program whose step time and period the arena knows.

    Slots in a row tell as much of the noise as quads, whose dropped steps make them longer. Quads are for
    requests: slow ones are few, and a percentile wants many.
    """
    least, most = AA_QUADS
    slot_s = arena.steps() * arena.step_s
    single = arena.steps() == arena.period and not settings.steps  # nothing is dropped between slots
    fit = IN_A_ROW * slot_s + least * arena.quad_s <= MOST_SHARE * settings.budget_s
    if settings.unit is Unit.REQUEST and not single and fit:
        quads = int(AA_SHARE * settings.budget_s / arena.quad_s)
        return BaselinePlan(IN_A_ROW, max(least, min(most, quads)))
    slots = int(AA_SHARE * settings.budget_s / slot_s)
    return BaselinePlan(max(LEAST_SLOTS, min(MOST_SLOTS, slots)))


def measured_unchanged(
    arena: Arena, session: Running, settings: Settings, startup_s: float, began: float
) -> Unchanged:
    """The parts of a step, and the program beside itself: on a quiet machine both from the same steps.

    Args:
        startup_s: From starting the program to its first step.
        began: When it was started, by the arena's clock; the budget counts from then.

    Raises:
        TrialFailed: It failed.
        SessionEnded: It ended before there was enough.
        UsageError: Its steps became so slow that the budget does not hold the least that is measured.
    """
    plan, end = baseline_plan(arena, settings), began + settings.budget_s
    slots: list[Slot] = []
    wall_ns: list[int] = []
    phases_ns: Counter[str] = Counter()
    for number in range(plan.slots):
        step_s, left = slots[-1].mean_s if slots else arena.step_s, LEAST_SLOTS - number
        if left > 0:
            check_budget(settings, startup_s, step_s, arena.clock() - began, left * arena.steps())
        elif arena.clock() + arena.steps() * step_s > end:
            break
        slots.append(session.slot(arena.steps(), drop=0))
        wall_ns += session.last.wall_ns
        phases_ns.update(session.last.phases_ns)
        if is_quiet(quads_in_a_row(slots)):
            break
    phases, facts = phases_of(wall_ns, phases_ns), session.facts()
    log_ratios = quads_in_a_row(slots)
    if not plan.quads or (is_quiet(log_ratios) and settings.unit is not Unit.REQUEST):
        return Unchanged(phases, slots, slots, log_ratios, facts)
    log_ratios, (first, second), _ = arena.quads((session, session), (None, None), plan.quads, end)
    return Unchanged(phases, [*slots, *first, *second], [*first, *second], log_ratios, facts)


def is_quiet(log_ratios: Sequence[float]) -> bool:
    """Whether quads of a program over itself spread by so little that more of them would change nothing.

    What follows takes no spread below ``FLOOR``. That of all quads counts, outliers too.
    """
    least, times = QUIET
    if len(log_ratios) < least:
        return False
    return times * math.sqrt(sum(ratio**2 for ratio in log_ratios) / len(log_ratios)) <= FLOOR


def quads_in_a_row(slots: Sequence[Slot]) -> list[float]:
    """Log ratios of a program over itself, from all four slots that follow each other; they overlap."""
    times = [slot.seconds_per_unit for slot in slots]
    return [quad_log_ratio(*times[first : first + 4]) for first in range(len(times) - 3)]


def spread_of(log_ratios: Sequence[float]) -> float:
    """Standard deviation of log ratios of a program over itself, which spread around 0."""
    if len(log_ratios) >= AA_QUADS[0]:
        return robust_sigma(log_ratios)
    return math.sqrt(sum(ratio**2 for ratio in log_ratios) / len(log_ratios))


def check_budget(
    settings: Settings, startup_s: float, step_s: float, spent_s: float, steps: int = LEAST_SLOTS
) -> None:
    """Refuse a budget that the unchanged program alone overruns.

    Args:
        settings: Have the budget.
        startup_s: From starting the program to its first step.
        step_s: Seconds of a step.
        spent_s: Seconds so far.
        steps: That are still to be measured at least.

    Raises:
        UsageError: With a budget in which something could be told.
    """
    least = spent_s + steps * step_s
    if least > settings.budget_s + settings.grace_s:
        minutes = math.ceil((STARTS_TO_TELL * startup_s + STEPS_TO_TELL * step_s) / 60)
        raise UsageError(
            f"one baseline run takes {as_option(least)}; the budget is {as_option(settings.budget_s)}",
            where="--budget",
            hint=f"`--budget {minutes}m`, or fewer `--steps`",
        )
