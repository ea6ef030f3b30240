"""How long a search will probably take: told as soon as the baseline says what a step and a start cost."""

from advisor.base.durations import write_duration
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.search.costs import Costs
from advisor.tuners.search.waves import FRUITLESS
from advisor.tuners.space.space import Space

LONG_MS = 999.5  # from here on, three figures are seconds


def said(
    arena: Arena, space: Space, startup_s: float, *, trials: int | None, left_s: float, later_s: float
) -> str:
    """``12.4 ms a step: 14 settings of 6 knobs to try, about 4 min by the baseline``.

    Args:
        arena: Knows what a step of the baseline takes.
        space: What is tried.
        startup_s: From starting the program to its first step.
        trials: At most, the baseline included.
        left_s: Of the budget.
        later_s: What gate and confirmation need of it.
    """
    tried = sum(len(values) - 1 for values in space.choices.values())
    ms = 1000 * arena.step_s
    takes = f"{ms:.3g} ms" if ms < LONG_MS else f"{arena.step_s:.3g} s"
    step = f"{takes} a {space.profile.unit} by the baseline"
    if not tried:
        return f"{step}: nothing to try"
    count = f"{tried} setting{'' if tried == 1 else 's'} of {len(space.choices)} knob"
    what = f"{step}: {count}{'' if len(space.choices) == 1 else 's'} to try"
    needed = search_s(arena, space, startup_s, trials) + later_s
    if needed > left_s and tried == 1:
        return f"{what}; confirming it may not fit into the {write_duration(left_s)} left"
    if needed > left_s:
        return f"{what}, more than fit into the {write_duration(left_s)} left: the most promising come first"
    return f"{what}, about {write_duration(needed)}"


def search_s(arena: Arena, space: Space, startup_s: float, trials: int | None = None) -> float:
    """Seconds that every value of every knob takes once, and the joint proposals that may change nothing.

    Args:
        arena: Knows what a step of the baseline takes.
        space: What is tried.
        startup_s: From starting the program to its first step.
        trials: At most, the baseline included.
    """
    one = Costs(arena, startup_s)
    costs = [
        one.trial_s(space.present, space.complete(space.present.with_({name: value})))
        for name, values in space.choices.items()
        for value in values[1:]
    ]
    if len(space.choices) > 1:
        costs += [max(costs, default=0.0)] * min(FRUITLESS, max(0, space.size - len(costs) - 1))
    return sum(costs if trials is None else costs[: max(0, trials - 1)])
