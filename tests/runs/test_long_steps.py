"""Whole runs on replayed programs whose steps take seconds: a plan, a verdict, what the budget can tell."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from replayed_program import Effect, Program, where
from replaying import Replay, replayed

from advisor.base.errors import UsageError
from advisor.tuners.knob import Value

pytestmark = pytest.mark.usefixtures("own_folder", "quick_proposals")

PLACEBO: Mapping[str, list[Value] | None] = {"placebo": None}
TELLS = re.compile(r"the budget tells a gain of about (\d+)%")


def run(step_s: float, minutes: float, folder: Path, **options: object) -> Replay:
    """A program of which a live knob halves the step."""
    effects = [Effect(where(placebo="on"), step=0.5)]
    program = Program(effects, step_s=step_s, startup_s=5.0, **options)  # type: ignore[arg-type]  # of Program
    return replayed(program, folder, knobs=dict(PLACEBO), budget_s=60.0 * minutes)


def told(replay: Replay) -> str:
    """What was said of the smallest gain, before anything was tried."""
    place = next(place for place, line in enumerate(replay.said) if "the budget tells" in line)
    assert not any(line.startswith("trial 1") for line in replay.said[:place])
    return replay.said[place]


@pytest.mark.parametrize("minutes", [4.0, 10.0, 30.0])
@pytest.mark.parametrize("step_s", [2.0, 5.0, 10.0, 30.0])
def test_a_doubled_speed_is_confirmed_wherever_the_budget_tells_it(
    step_s: float, minutes: float, tmp_path: Path
) -> None:
    replay = run(step_s, minutes, tmp_path)
    found, said = replay.result.recommendation, told(replay)
    assert found.verdict in ("keep", "change")
    if TELLS.match(said):
        assert found.verdict == "change" and found.speedup.low < 2.0 < found.speedup.high
    else:
        assert "tells no gain of 20%" in said and "could" in said
    assert replay.launcher.now <= 1.3 * 60.0 * minutes


@pytest.mark.parametrize("step_s", [5.0, 10.0, 30.0])
def test_the_budget_that_is_said_to_tell_more_does(step_s: float, tmp_path: Path) -> None:
    said = told(run(step_s, 4.0, tmp_path / "short"))
    (minutes,) = re.findall(r"`--budget (\d+)m` could", said)
    replay = run(step_s, float(minutes), tmp_path / "long")
    assert TELLS.match(told(replay)) and replay.result.recommendation.verdict == "change"


def test_a_close_look_at_long_steps_takes_no_large_part_of_the_budget(tmp_path: Path) -> None:
    replay = run(10.0, 10.0, tmp_path, without={})
    assert "watching it run" not in replay.said[: replay.said.index(told(replay))]


def test_a_budget_below_the_first_steps_is_refused_with_one_that_suffices(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one baseline run takes") as refused:
        run(30.0, 1.0, tmp_path)
    (minutes,) = re.findall(r"--budget (\d+)m", str(refused.value.hint))
    assert TELLS.match(told(run(30.0, float(minutes), tmp_path)))


def test_a_gain_that_the_rest_of_the_budget_has_no_pairs_for_is_told_with_a_budget(tmp_path: Path) -> None:
    reason = run(10.0, 4.0, tmp_path).result.recommendation.reason
    assert re.search(r"about (1\.9|2\.0)\dx, could not be confirmed", reason) and "--budget" in reason
