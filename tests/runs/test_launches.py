"""How many processes a verdict costs, counted on paper."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from builders import a_rich_profile
from replayed_program import Effect, Program, where
from replaying import Replay, replayed

from advisor.tuners.knob import Value

pytestmark = pytest.mark.usefixtures("own_folder", "quick_proposals")

Knobs = Mapping[str, list[Value] | None]
LIVE: Knobs = {"placebo": None}
MALLOC: Knobs = {"malloc": ["libc", "libc-tuned"]}
WORKERS: Knobs = {"num_workers": [0, 4, 2]}
CELLS = [(startup_s, step_s) for startup_s in (2.0, 20.0, 60.0) for step_s in (0.02, 0.5, 2.0)]
LAUNCHES = {"loader": 5, "live": 3, "half": 3, "restart": 7}
STARTS, STEPS = 5, 100  # that a verdict may take
OVER_S = 5.5  # by which short steps behind a start of 2 s miss that: a profile has its least number of steps


def cell(kind: str, startup_s: float, step_s: float, folder: Path, *, whole: bool = False) -> Replay:
    """A program with a gain that a setting brings; ``whole``: all settings are tried."""
    half = Effect(where(placebo="on"), step=1 / 1.5)
    effects, knobs = {
        "loader": ([Effect(where(num_workers=count), step=1 / count) for count in (2, 4)], WORKERS),
        "live": ([half], LIVE),
        "half": ([Effect(where(placebo="on"), step=1 / 1.3)], LIVE),
        "restart": ([Effect(where(malloc="libc-tuned"), step=1 / 1.3)], MALLOC),
    }[kind]
    waits = 0.75 if kind == "loader" else 0.0

    def parts(config: Mapping[str, Value]) -> Mapping[str, float]:
        return {"input_wait": 0.0 if config.get("num_workers") else waits, "forward": 0.2, "backward": 0.05}

    profile = a_rich_profile()
    assert profile.loader is not None
    loader = replace(profile.loader, item_ms=1e3 * waits * step_s / 32, cpu_share=0.02)
    program = Program(
        effects, startup_s=startup_s, step_s=step_s, without={"loader": 1 - waits}, parts=parts,
        profile=replace(profile, loader=loader),
    )  # fmt: skip
    budget_s = max(600.0, 40 * startup_s + 600 * step_s)
    return replayed(program, folder, knobs={} if whole else dict(knobs), budget_s=budget_s)


@pytest.mark.parametrize(("startup_s", "step_s"), CELLS)
@pytest.mark.parametrize("kind", LAUNCHES)
def test_a_large_gain_stands_after_few_launches_and_seconds(
    kind: str, startup_s: float, step_s: float, tmp_path: Path
) -> None:
    run = cell(kind, startup_s, step_s, tmp_path)
    seconds, launches = run.verdict()
    asked = STARTS * startup_s + STEPS * step_s
    print(f"{kind}/{startup_s:g}/{step_s:g}: {launches} launches, {seconds:.0f} s of {asked:.0f}")
    assert run.result.recommendation.verdict == "change" and launches <= LAUNCHES[kind]
    over_s = OVER_S if startup_s == 2.0 and step_s < 0.1 else 0.0
    assert kind == "restart" or seconds <= asked + over_s


@pytest.mark.parametrize(("startup_s", "step_s"), [(20.0, 0.5), (60.0, 2.0)])
def test_so_it_is_where_all_settings_are_tried(startup_s: float, step_s: float, tmp_path: Path) -> None:
    run = cell("loader", startup_s, step_s, tmp_path, whole=True)
    seconds, launches = run.verdict()
    assert seconds <= STARTS * startup_s + STEPS * step_s and launches <= LAUNCHES["loader"]
    assert len(run.result.trials) > 3, "the search went on"


def test_a_large_gain_is_confirmed_before_the_rest_where_another_verdict_fits(tmp_path: Path) -> None:
    program = Program([Effect(where(malloc="libc-tuned"), step=1 / 1.4)], startup_s=20.0, step_s=0.5)
    run = replayed(program, tmp_path, budget_s=600.0)
    seconds, launches = run.verdict()
    assert launches <= LAUNCHES["restart"] and seconds < 180
    assert "time is left: trying what was not reached" in run.said


def test_what_was_confirmed_outlives_an_interrupt_of_the_search_that_goes_on(tmp_path: Path) -> None:
    said = "time is left: trying what was not reached"
    program = Program([Effect(where(placebo="on"), step=1 / 1.5)], startup_s=20.0, step_s=0.5)
    knobs: Knobs = {"placebo": None, "mkldnn": None, "gc_freeze": None, "malloc": None, "num_threads": None}
    run = replayed(program, tmp_path, knobs=dict(knobs), budget_s=900.0, interrupt_at=said)
    assert said in run.said and run.result.budget.stopped_by == "interrupted"
    assert run.result.recommendation.verdict == "change" and run.result.recommendation.speedup.low > 1.3


@pytest.mark.parametrize(
    ("startup_s", "budget_s", "all_of_it"), [(18.0, 110.0, False), (8.0, 115.0, True), (8.0, 180.0, True)]
)
def test_what_the_best_grew_from_is_confirmed_where_no_time_is_left_for_the_best(
    startup_s: float, budget_s: float, all_of_it: bool, tmp_path: Path
) -> None:
    workers = [Effect(where(num_workers=2), step=0.7), Effect(where(num_workers=4), step=0.5)]
    program = Program(
        [Effect(where(placebo="on"), step=0.5), *workers],
        startup_s=startup_s, step_s=0.6, noise=0.1, between=0.02,
    )  # fmt: skip
    knobs: Knobs = {"placebo": None, "num_workers": [0, 2, 4]}
    run = replayed(program, tmp_path, knobs=dict(knobs), budget_s=budget_s)
    found = run.result.recommendation
    changed = {change.knob for change in found.changes}
    assert ("no time is left to confirm the best: taking what it grew from" in run.said) is not all_of_it
    assert found.verdict == "change" and changed == {"placebo"} | ({"num_workers"} if all_of_it else set())
    assert all_of_it or "could not be confirmed" in found.reason
    assert run.result.budget.seconds <= 1.2 * budget_s


@pytest.mark.parametrize("noise", [0.1, 0.2])
@pytest.mark.parametrize(
    ("startup_s", "budget_s"), [(8.0, 150.0), (8.0, 190.0), (15.0, 210.0), (15.0, 250.0)]
)
def test_half_a_reduction_takes_out_no_clear_gain(
    startup_s: float, budget_s: float, noise: float, tmp_path: Path
) -> None:
    workers = [Effect(where(num_workers=2), step=0.7), Effect(where(num_workers=4), step=0.5)]
    program = Program(
        [Effect(where(placebo="on"), step=0.5), *workers],
        startup_s=startup_s, step_s=0.6, noise=noise, between=0.02,
    )  # fmt: skip
    knobs: Knobs = {"placebo": None, "num_workers": [0, 2, 4]}
    found = replayed(program, tmp_path, knobs=dict(knobs), budget_s=budget_s).result.recommendation
    assert found.verdict == "change" and "placebo" in {change.knob for change in found.changes}


@pytest.mark.parametrize(
    ("wrong", "knobs"),
    [
        ({"placebo": "on"}, LIVE),
        ({"malloc": "libc-tuned"}, MALLOC),
        ({"num_workers": 4}, WORKERS),
    ],
)
@pytest.mark.parametrize("startup_s", [2.0, 20.0])
def test_a_wrong_candidate_is_refused_by_its_numbers_however_fast(
    wrong: dict[str, Value], knobs: Knobs, startup_s: float, tmp_path: Path
) -> None:
    fast = Effect(where(**wrong), step=1 / 3, loss=0.2)
    run = replayed(Program([fast], startup_s=startup_s), tmp_path, knobs=dict(knobs), budget_s=600.0)
    assert run.result.recommendation.verdict == "keep"
    assert "drift" in run.result.recommendation.reason
