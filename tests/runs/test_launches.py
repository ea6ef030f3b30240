"""How many processes a verdict costs, counted on paper."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from replayed_program import Effect, Program, where
from replaying import replayed

from advisor.tuners.knob import Value

pytestmark = pytest.mark.usefixtures("own_folder")

Knobs = Mapping[str, list[Value] | None]
LIVE: Knobs = {"placebo": None}
MALLOC: Knobs = {"malloc": ["libc", "libc-tuned"]}


@pytest.mark.parametrize(("startup_s", "step_s"), [(2.0, 0.02), (20.0, 0.5), (60.0, 2.0)])
@pytest.mark.parametrize(
    ("effect", "knobs", "most"),
    [
        (Effect(where(placebo="on"), step=1 / 1.5), LIVE, 3),
        (Effect(where(placebo="on"), step=1 / 1.3), LIVE, 5),
        (Effect(where(malloc="libc-tuned"), step=1 / 1.3), MALLOC, 7),
    ],
)
def test_a_large_gain_is_confirmed_in_few_launches(
    effect: Effect, knobs: Knobs, most: int, startup_s: float, step_s: float, tmp_path: Path
) -> None:
    program = Program([effect], startup_s=startup_s, step_s=step_s, without={"loader": 0.8})
    run = replayed(program, tmp_path, knobs=dict(knobs), budget_s=40 * startup_s + 600 * step_s)
    assert run.result.recommendation.verdict == "change" and run.launcher.launches <= most
