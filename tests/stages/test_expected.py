"""What is said of the length of a search before it begins."""

from typing import Any

import pytest
from builders import a_loader, a_profile, an_optimizer

from advisor.stages import expected
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.search.costs import LIVE_QUADS
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space

LIVE_KNOB: dict[str, list[Value]] = {"optimizer_implementation": ["default", "fused"]}
RESTARTED: dict[str, list[Value]] = {"malloc": ["default", "tuned"]}
TOGETHER = LIVE_KNOB | RESTARTED


def an_arena(step_s: float = 0.05) -> Arena:
    return Arena(None, KNOBS, {}, step_s=step_s)  # type: ignore[arg-type]  # nothing is started


def a_space(choices: dict[str, list[Value]]) -> Space:
    present = Configuration({name: values[0] for name, values in choices.items()})
    return Space(present, present, choices, [], a_profile(loader=a_loader(), optimizers=(an_optimizer(),)))


def told(choices: dict[str, list[Value]], **options: Any) -> str:
    given: dict[str, Any] = {"trials": None, "left_s": 3600.0, "later_s": 60.0} | options
    return expected.said(an_arena(), a_space(choices), 2.0, **given)


def test_a_knob_that_needs_new_processes_takes_longer_by_their_start() -> None:
    arena = an_arena()
    live, restarted = (expected.search_s(arena, a_space(choices), 2.0) for choices in (LIVE_KNOB, RESTARTED))
    assert live == LIVE_QUADS * arena.quad_s
    assert restarted > 2 * 2.0 + arena.quad_s


def test_the_joint_proposals_of_several_knobs_count_too() -> None:
    arena = an_arena()
    alone = [expected.search_s(arena, a_space(choices), 2.0) for choices in (LIVE_KNOB, RESTARTED)]
    assert expected.search_s(arena, a_space(TOGETHER), 2.0) == pytest.approx(sum(alone) + max(alone))


def test_a_limit_of_trials_bounds_the_time() -> None:
    arena = an_arena()
    assert expected.search_s(arena, a_space(TOGETHER), 2.0, trials=2) < expected.search_s(
        arena, a_space(TOGETHER), 2.0
    )
    assert expected.search_s(arena, a_space(TOGETHER), 2.0, trials=1) == 0


def test_it_says_what_a_step_takes_how_much_is_tried_and_how_long_that_takes() -> None:
    said = told(LIVE_KNOB)
    assert said.startswith("50 ms a step by the baseline: 1 setting of 1 knob to try, about ")
    assert said.endswith(" s")


def test_more_than_the_budget_allows_is_said() -> None:
    assert told(TOGETHER, left_s=45.0) == (
        "50 ms a step by the baseline: 2 settings of 2 knobs to try, more than fit into the 45 s left: "
        "the most promising come first"
    )


def test_of_a_single_setting_none_comes_first() -> None:
    assert told(LIVE_KNOB, left_s=1.0) == (
        "50 ms a step by the baseline: 1 setting of 1 knob to try; "
        "confirming it may not fit into the 1 s left"
    )


def test_with_nothing_to_try_no_time_is_told() -> None:
    assert told({}) == "50 ms a step by the baseline: nothing to try"


@pytest.mark.parametrize(("step_s", "takes"), [(0.9994, "999 ms"), (0.9996, "1 s"), (1.234, "1.23 s")])
def test_a_long_step_is_told_in_seconds(step_s: float, takes: str) -> None:
    said = expected.said(an_arena(step_s), a_space({}), 2.0, trials=None, left_s=3600.0, later_s=60.0)
    assert said == f"{takes} a step by the baseline: nothing to try"
