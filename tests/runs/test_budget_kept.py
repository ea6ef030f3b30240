"""A run ends within its budget and a fifth of it, whatever starts and steps take, or says so at first."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from replayed_program import Effect, Program, above, where
from replaying import Replay, replayed

from advisor.base.errors import UsageError
from advisor.base.settings import GRACE
from advisor.tuners.knob import Value

pytestmark = pytest.mark.usefixtures("own_folder", "quick_proposals")

Knobs = Mapping[str, list[Value] | None]
LIVE: Knobs = {"placebo": None}
MALLOC: Knobs = {"malloc": ["libc", "libc-tuned"]}
FASTER, FREED = Effect(where(placebo="on"), step=1 / 1.5), Effect(where(malloc="libc-tuned"), step=1 / 1.3)
KINDS: Mapping[str, tuple[Sequence[Effect], Knobs]] = {
    "live": ([FASTER], LIVE),
    "restart": ([FREED], MALLOC),
    "loader": (
        [Effect(where(num_workers=2), step=0.5), Effect(where(num_workers=4), step=0.25)],
        {"num_workers": [0, 2, 4]},
    ),
    "compile": ([Effect(where(execution="compile"), step=0.5)], {"execution": ["eager", "compile"]}),
    "compiled": (
        [FASTER, Effect(where(execution="compile"), step=0.5)],
        {"execution": ["eager", "compile"], **LIVE},
    ),
    "two": ([FASTER, FREED], {**LIVE, **MALLOC}),
    "drifts": ([Effect(where(placebo="on"), step=0.6, loss=0.1), FREED], {**LIVE, **MALLOC}),
}
BUDGETS_S = (20.0, 60.0, 180.0, 300.0, 600.0, 1200.0)
STARTS_S, STEPS_S = (2.0, 20.0, 60.0), (0.02, 0.5, 2.0)
Cell = tuple[str, float, float, float]


def cells() -> list[Cell]:
    """Of each kind, start and step a budget, all of them in turn that are more than a start."""
    found: list[Cell] = []
    for kind in KINDS:
        for startup_s in STARTS_S:
            for step_s in STEPS_S:
                enough = [budget_s for budget_s in BUDGETS_S if budget_s > startup_s]
                found.append((kind, startup_s, step_s, enough[len(found) % len(enough)]))
    return found


def run(cell: Cell, folder: Path, **program: Any) -> Replay:
    kind, startup_s, step_s, budget_s = cell
    effects, knobs = KINDS[kind]
    model = Program(effects, startup_s=startup_s, step_s=step_s, **{"without": {"loader": 0.8}, **program})
    return replayed(model, folder, knobs=dict(knobs), budget_s=budget_s)


def ends_in_time(cell: Cell, folder: Path, **program: Any) -> None:
    """Also where it is refused at once, with a budget that suffices."""
    try:
        replay = run(cell, folder, **program)
    except UsageError as refused:
        assert "one baseline run takes" in str(refused) and re.search(r"--budget \d+m", str(refused.hint))
        return
    assert replay.launcher.now <= (1 + GRACE) * cell[-1]
    assert replay.result.recommendation.verdict == "change" or replay.result.recommendation.reason


@pytest.mark.parametrize("cell", cells(), ids=str)
def test_a_run_ends_within_its_budget_and_a_fifth(cell: Cell, tmp_path: Path) -> None:
    ends_in_time(cell, tmp_path)


@pytest.mark.parametrize("place", range(len(cells())))
def test_also_where_all_takes_three_times_as_long_from_some_time_on(place: int, tmp_path: Path) -> None:
    cell, share = cells()[place], (0.3, 0.6, 0.9)[place % 3]

    def slower(now: float) -> float:
        return 3.0 if now > share * cell[-1] else 1.0

    ends_in_time(cell, tmp_path, slower=slower)


@pytest.mark.parametrize("budget_s", BUDGETS_S[1:])
@pytest.mark.parametrize("compile_s", [60.0, 2400.0])
def test_also_where_compiling_takes_much_longer_than_is_usual(
    budget_s: float, compile_s: float, tmp_path: Path
) -> None:
    for kind in ("compile", "compiled") if budget_s < 1000 else ("compiled",):
        ends_in_time((kind, 2.0, 0.5, budget_s), tmp_path / kind, compile_s=compile_s)


def test_a_compilation_that_does_not_end_leaves_time_for_the_others(tmp_path: Path) -> None:
    replay = run(("compiled", 2.0, 0.5, 600.0), tmp_path, compile_s=2400.0)
    found = replay.result.recommendation
    assert found.verdict == "change" and found.config["placebo"] == "on"
    assert "timeout" in {
        trial.cause for trial in replay.result.trials if trial.config["execution"] == "compile"
    }


@pytest.mark.parametrize("kind", ["live", "two", "drifts"])
@pytest.mark.parametrize("startup_s", STARTS_S)
def test_also_where_numbers_turn_out_to_need_fresh_processes(
    kind: str, startup_s: float, tmp_path: Path
) -> None:
    for budget_s in (5 * startup_s, 9 * startup_s):
        ends_in_time((kind, startup_s, 0.5, budget_s), tmp_path / str(budget_s), repeats=False)


@pytest.mark.parametrize("startup_s", STARTS_S)
def test_also_of_a_program_that_has_to_be_launched_for_every_window(startup_s: float, tmp_path: Path) -> None:
    for starts in (1.5, 5.0, 8.0, 12.0):
        ends_in_time(("live", startup_s, 0.02, starts * startup_s), tmp_path / str(starts), steps=60)


def test_what_has_no_room_for_its_confirmation_is_kept_with_the_budget_that_it_needs(tmp_path: Path) -> None:
    cell = ("restart", 20.0, 0.5, 110.0)
    short = run(cell, tmp_path / "short").result.recommendation
    assert short.verdict == "keep" and re.search(r"about 1\.(29|3\d)x", short.reason)
    (minutes,) = re.findall(r"`--budget (\d+)m` could", short.reason)
    longer = run((*cell[:3], 60.0 * float(minutes)), tmp_path / "longer").result.recommendation
    assert longer.verdict == "change"


@pytest.mark.parametrize(("startup_s", "proposed"), [(20.0, False), (2.0, True)])
def test_what_follows_a_verdict_is_left_out_where_its_starts_have_no_room(
    startup_s: float, proposed: bool, tmp_path: Path
) -> None:
    loads = Effect(above(num_workers=0), step=0.25)
    model = Program(
        [loads], startup_s=startup_s, step_s=0.5, without={"loader": 0.25},
        parts=lambda config: {"input_wait": 0.0 if config.get("num_workers") else 0.75, "forward": 0.2},
    )  # fmt: skip
    replay = replayed(model, tmp_path, budget_s=300.0)
    assert replay.result.recommendation.verdict == "change"
    assert any("for a proposal" in text for text in replay.said) == proposed
    assert replay.launcher.now <= 300.0


def test_a_verdict_is_never_half_confirmed(tmp_path: Path) -> None:
    for seconds in range(60, 300, 20):
        found = run(("loader", 20.0, 0.5, float(seconds)), tmp_path / str(seconds)).result
        confirmed = [trial for trial in found.trials if trial.stage == "confirm"]
        complete = [trial for trial in confirmed if trial.state == "complete"]
        assert (found.recommendation.verdict == "change") == bool(complete)
