"""Quads that something else has falsified."""

from typing import Any

import pytest

from advisor.tuners.disturbed import disturbance, set_apart
from advisor.tuners.measure import Slot


def slots(**facts: Any) -> list[Slot]:
    """Two slots of a second each."""
    return [Slot((0.5, 0.5), **facts), Slot((0.5, 0.5), **facts)]


def test_load_beside_one_arm_alone_is_a_disturbance() -> None:
    assert disturbance(slots(), slots(other_cpu_s=0.5), 1) == "other_load"
    assert disturbance(slots(other_cpu_s=0.5), slots(), 1) == "other_load"


def test_load_beside_both_arms_is_none() -> None:
    assert disturbance(slots(other_cpu_s=0.9), slots(other_cpu_s=0.9), 1) is None


def test_threads_that_get_less_than_their_share_beside_other_load_have_collapsed() -> None:
    calm, crowded = slots(cpu_s=1.9), slots(cpu_s=1.0, other_cpu_s=0.9)
    assert disturbance(calm, crowded, 2) == "thread_collapse"
    assert disturbance(calm, slots(cpu_s=1.9, other_cpu_s=0.9), 2) == "other_load"


def test_a_quota_that_held_up_one_arm_is_a_disturbance() -> None:
    assert disturbance(slots(throttled_s=0.2), slots(), 1) == "throttled"


@pytest.mark.parametrize("ticks", [1, 2])
def test_the_kernel_s_own_ticks_are_no_load(ticks: int) -> None:
    short = [Slot((0.05,)), Slot((0.05,))]
    beside = [Slot((0.05,), other_cpu_s=0.01 * ticks / 2), Slot((0.05,), other_cpu_s=0.01 * ticks / 2)]
    assert disturbance(short, beside, 1) is None


def test_steps_with_an_evaluation_or_a_save_are_counted() -> None:
    flagged = [
        Slot((0.1,), flags=(("evaluation", 1), ("skipped_update", 2))),
        Slot((0.1,), flags=(("save", 3),)),
    ]
    assert set_apart(flagged) == {"evaluation": 1, "save": 3}
