"""How many steps a close look takes: what the rules need at every step time, and not many more."""

import pytest

from advisor.advice.advise import CLEAN_STEPS
from advisor.rules import memory_growth
from advisor.stages.look_plan import SAMPLED_S, LookPlan, look_plan
from advisor.tuners.comparing.replay import PARTS

EARLIER = 11  # steps of a baseline whose steps are long
SETTLING = 20  # steps before the first sample of memory that counts, and 10 between two


def pairs(plan: LookPlan) -> int:
    """Pairs of blocks of each part."""
    return plan.effort.rounds[0]


@pytest.mark.parametrize("step_s", [0.002, 0.02, 0.5, 2.0, 10.0])
@pytest.mark.parametrize("earlier", [0, EARLIER])
def test_an_interval_can_be_made_of_every_replay(step_s: float, earlier: int) -> None:
    plan = look_plan(step_s, earlier=earlier)
    assert 3 <= pairs(plan) <= plan.effort.rounds[1] and 1 <= plan.effort.sizes[0] <= plan.effort.sizes[1]


@pytest.mark.parametrize("step_s", [0.002, 0.02, 0.5, 2.0, 10.0])
def test_a_process_of_its_own_is_watched_for_as_long_as_rules_need(step_s: float) -> None:
    plan = look_plan(step_s)
    assert plan.watched >= CLEAN_STEPS and plan.epochs and set(plan.parts) == set(PARTS)


@pytest.mark.parametrize("step_s", [0.002, 0.02])
def test_short_steps_show_a_growth_of_memory(step_s: float) -> None:
    assert look_plan(step_s, earlier=EARLIER).watched >= SETTLING + memory_growth.STEPS + 10


@pytest.mark.parametrize(("step_s", "most"), [(0.5, 11), (2.0, 9), (10.0, 9)])
def test_few_long_steps_are_watched_and_recorded_where_earlier_ones_count(step_s: float, most: int) -> None:
    plan = look_plan(step_s, earlier=EARLIER)
    assert plan.watched + plan.inspected + plan.recorded <= most
    assert plan.effort.block_s == 0.0 and not plan.epochs and "forward_only" not in plan.parts


@pytest.mark.parametrize("step_s", [0.0005, 0.002, 0.02, 0.04, 0.5])
@pytest.mark.parametrize("earlier", [0, EARLIER])
def test_hot_lines_are_sampled_for_long_enough_whatever_a_step_takes(step_s: float, earlier: int) -> None:
    plan = look_plan(step_s, earlier=earlier)
    least_s = SAMPLED_S / 2 if earlier else SAMPLED_S
    assert (plan.sampled + plan.inspected) * step_s >= least_s
    assert plan.sampled == 0 or plan.sampled * step_s <= least_s


def test_longer_steps_never_take_more_of_them() -> None:
    plans = [look_plan(step_s, earlier=EARLIER) for step_s in (0.02, 0.05, 0.2, 1.0, 5.0)]
    for name in ("watched", "inspected", "sampled", "recorded", "windows", "one_thread"):
        counts = [getattr(plan, name) for plan in plans]
        assert counts == sorted(counts, reverse=True), name


@pytest.mark.parametrize("earlier", [1, 5, 11, 100])
def test_steps_made_earlier_count_among_those_that_rules_need(earlier: int) -> None:
    for step_s in (0.02, 0.5, 2.0, 10.0):
        assert look_plan(step_s, earlier=earlier).watched >= max(3, CLEAN_STEPS - earlier)
