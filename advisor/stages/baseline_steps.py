"""How many steps the unchanged program is measured for: of long ones as many as the budget has room for."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.base.durations import as_option
from advisor.base.errors import UsageError
from advisor.base.settings import Settings
from advisor.profiles.derived.step_phases import phases_of
from advisor.profiles.facts.profile import StepPhases
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.measure import quad_log_ratio, robust_sigma
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.trial.messages import Facts, Slot

AA_QUADS = (5, 24)  # at least, at most
AA_SHARE = 0.08  # of the budget
PHASE_STEPS = (10, 200)  # of the window that tells the parts of a step
PHASE_S = 1.0  # of that window
MOST_SHARE = 0.2  # of the budget, that window and quads may take; beyond, slots in a row serve for both
LEAST_SLOTS = 5  # in a row: two quads that overlap
STEPS_TO_TELL = 60  # of a run that confirms a large gain: baseline, one look, numbers, two pairs
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
        phase_steps: Of the window that tells the parts of a step; 0 where the slots tell them.
        quads: In which it is compared with itself; 0 where those are made of slots in a row.
        slots: In a row, without a pause between them.
    """

    phase_steps: int
    quads: int
    slots: int = 0


def baseline_plan(arena: Arena, settings: Settings) -> BaselinePlan:
    """The plan for a program whose step time and period the arena knows."""
    shortest, longest = PHASE_STEPS
    phase_steps = settings.steps or min(longest, max(shortest, round(PHASE_S / arena.step_s)))
    least, most = AA_QUADS
    if phase_steps * arena.step_s + least * arena.quad_s <= MOST_SHARE * settings.budget_s:
        quads = int(AA_SHARE * settings.budget_s / arena.quad_s)
        return BaselinePlan(phase_steps, max(least, min(most, quads)))
    slots = int(AA_SHARE * settings.budget_s / (arena.steps() * arena.step_s))
    return BaselinePlan(0, 0, max(LEAST_SLOTS, min(4 * least, slots)))


def measured_unchanged(arena: Arena, session: Running, settings: Settings) -> Unchanged:
    """The parts of a step, and the program beside itself: of long steps both from the same ones.

    Raises:
        TrialFailed: It failed.
        SessionEnded: It ended before there was enough.
    """
    plan = baseline_plan(arena, settings)
    if not plan.slots:
        slot = session.slot(plan.phase_steps, drop=0)
        phases, facts = phases_of(session.last.wall_ns, session.last.phases_ns), session.facts()
        log_ratios, (first, second), _ = arena.quads((session, session), (None, None), plan.quads)
        return Unchanged(phases, [slot, *first, *second], first + second, log_ratios, facts)
    slots: list[Slot] = []
    wall_ns: list[int] = []
    phases_ns: Counter[str] = Counter()
    facts = session.facts()
    for _ in range(plan.slots):
        slots.append(session.slot(arena.steps(), drop=0))
        facts = session.facts() if session.alive else facts
        wall_ns += session.last.wall_ns
        phases_ns.update(session.last.phases_ns)
    return Unchanged(phases_of(wall_ns, phases_ns), slots, slots, quads_in_a_row(slots), facts)


def quads_in_a_row(slots: Sequence[Slot]) -> list[float]:
    """Log ratios of a program over itself, from all four slots that follow each other; they overlap."""
    times = [slot.seconds_per_unit for slot in slots]
    return [quad_log_ratio(*times[first : first + 4]) for first in range(len(times) - 3)]


def spread_of(log_ratios: Sequence[float]) -> float:
    """Standard deviation of log ratios of a program over itself, which spread around 0."""
    if len(log_ratios) >= AA_QUADS[0]:
        return robust_sigma(log_ratios)
    return math.sqrt(sum(ratio**2 for ratio in log_ratios) / len(log_ratios))


def check_budget(settings: Settings, startup_s: float, step_s: float, spent_s: float) -> None:
    """Refuse a budget that the unchanged program alone overruns.

    Args:
        settings: Have the budget.
        startup_s: From starting the program to its first step.
        step_s: Seconds of a step.
        spent_s: Seconds so far.

    Raises:
        UsageError: With a budget in which something could be told.
    """
    least = spent_s + LEAST_SLOTS * step_s
    if least > settings.budget_s + settings.grace_s:
        minutes = math.ceil((STARTS_TO_TELL * startup_s + STEPS_TO_TELL * step_s) / 60)
        raise UsageError(
            f"one baseline run takes {as_option(least)}; the budget is {as_option(settings.budget_s)}",
            where="--budget",
            hint=f"`--budget {minutes}m`, or fewer `--steps`",
        )
