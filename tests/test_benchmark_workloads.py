"""The benchmarks' workloads train, and the arena that answers from a measured grid leads to its best cell."""

import importlib
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from builders import a_rich_profile

from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.search.race import DUEL_QUADS, WORTH
from advisor.tuners.search.search import Search

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted((BENCHMARKS / "workloads").glob("*.py"))
OF_TRANSFORMERS = {path for path in SCRIPTS if "from transformers import" in path.read_text()}
RUNNER = """
import contextlib, io, json, runpy, sys, traceback
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

told, updates = {}, []
register_optimizer_step_post_hook(lambda *arguments: updates.append(1))
for path in sys.argv[1:]:
    sys.argv = [path, "--steps", "2"]
    updates.clear()
    printed, error = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(path, run_name="__main__")
    except BaseException:
        error = traceback.format_exc()
    told[path] = {"error": error, "updates": len(updates), "printed": printed.getvalue()}
print(json.dumps(told))
"""

Speed = Callable[[Mapping[str, Value]], float]
CHOICES: dict[str, list[Value]] = {
    "amp": ["off", "bf16"],
    "channels_last": ["off", "on"],
    "optimizer_implementation": ["default", "foreach", "fused"],
}


@pytest.fixture(scope="module")
def trained() -> dict[str, dict[str, Any]]:
    """What each script printed, and how many updates it made, after two steps asked for."""
    told: dict[str, dict[str, Any]] = {}
    groups = [[path for path in SCRIPTS if path not in OF_TRANSFORMERS]]
    if importlib.util.find_spec("transformers") is not None:
        groups.append(sorted(OF_TRANSFORMERS))
    for paths in groups:
        done = subprocess.run(
            [sys.executable, "-c", RUNNER, *map(str, paths)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told.update(json.loads(done.stdout.splitlines()[-1]))
    return told


@pytest.fixture(scope="module")
def benchmarks() -> Iterator[Any]:
    """The modules beside the benchmarks' scripts, imported as those import them."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        names = ("grids", "grid_arena", "search")
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(BENCHMARKS))


def a_grid(
    benchmarks: Any, speed: Speed, *, noise: tuple[float, ...] = (0.0,), failing: str | None = None
) -> Any:
    """All cells of ``CHOICES`` at known speeds; a process takes 3 s, a pair 10 s, a step 10 ms.

    Cells whose optimizer is ``failing`` have run out of memory.
    """
    grids = benchmarks.grids
    present = {name: values[0] for name, values in CHOICES.items()}
    grid = grids.Grid(
        "synthetic", {}, a_rich_profile(), present, present, CHOICES, step_s=0.01, slot_steps=15, start_s=3.0
    )
    for config in grid.missing():
        how = "live" if config["channels_last"] == "off" else "baton"
        if config["optimizer_implementation"] == failing:
            grid.cells.append(grids.Cell(dict(config), how, "failed", cause="oom_host", reason="no memory"))
            continue
        ratios = [math.log(speed(config)) + each for each in noise]
        grid.cells.append(grids.Cell(dict(config), how, instances=[ratios], seconds=[10.0], step_s=0.01))
    grid.confirmed = [cell for cell in grid.cells if cell.config == grid.best()[0]]
    return grid


def an_arena(benchmarks: Any, grid: Any, seed: int = 0) -> Any:
    return benchmarks.grid_arena.grid_arena(grid, seed, lambda config: 0)


def interacting(config: Mapping[str, Value]) -> float:
    """Narrow numbers gain nothing alone, much beside the other layout; a fused update helps everywhere."""
    speed = {"default": 1.0, "foreach": 0.9, "fused": 1.2}[str(config["optimizer_implementation"])]
    if config["channels_last"] == "on":
        speed *= 2.0 if config["amp"] == "bf16" else 1.1
    return speed


@pytest.mark.long  # quick: what is read of each script and of its table
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_workload_makes_the_steps_asked_for_and_prints_its_loss(
    path: Path, trained: dict[str, dict[str, Any]]
) -> None:
    if path in OF_TRANSFORMERS and str(path) not in trained:
        pytest.skip("transformers is not installed")
    outcome = trained[str(path)]
    assert outcome["error"] is None
    assert outcome["updates"] == 2 * path.read_text().count("torch.optim.")
    (loss,) = re.findall(r"^step 0 loss (\S+)$", outcome["printed"], re.MULTILINE)
    assert math.isfinite(float(loss))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_workload_says_which_knobs_matter_and_which_trap_it_holds(path: Path) -> None:
    introduction = path.read_text().split('"""')[1]
    assert "Knobs that matter:" in introduction
    assert re.search(r"\bTraps?:", introduction)
    assert "import advisor" not in path.read_text()


def test_every_workload_has_a_table_of_at_most_36_cells(benchmarks: Any) -> None:
    tables = benchmarks.grids.TABLES
    assert set(tables) == {path.stem for path in SCRIPTS}
    for table in tables.values():
        assert table.knobs.keys() <= KNOBS.keys()
        assert math.prod(len(values) for values in table.knobs.values()) <= benchmarks.grids.MOST_CELLS


def test_the_values_of_every_table_are_legal(benchmarks: Any) -> None:
    for table in benchmarks.grids.TABLES.values():
        for name, values in table.knobs.items():
            assert [KNOBS[name].parse(str(value)) for value in values] == values


@pytest.mark.parametrize("seed", range(3))
def test_the_search_finds_the_best_cell_of_a_noise_free_grid(benchmarks: Any, seed: int) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    arena = an_arena(benchmarks, a_grid(benchmarks, interacting), seed)
    reached = benchmarks.search.with_advisor(arena, seed)
    assert reached.config == {"amp": "bf16", "channels_last": "on", "optimizer_implementation": "fused"}
    assert arena.share(reached.config) == 1.0
    evaluations, seconds = reached.at
    assert 3 <= evaluations <= reached.evaluations <= 12 + 4  # cells, and the last race among the best
    assert 0 < seconds <= arena.now


@pytest.mark.parametrize("name", ["TPE", "random", "one at a time"])
def test_every_other_search_goes_through_the_same_grid(benchmarks: Any, name: str) -> None:
    arena = an_arena(benchmarks, a_grid(benchmarks, interacting))
    reached = benchmarks.search.SEARCHES[name](arena, 0)
    assert reached.evaluations > 0
    assert reached.at is None or arena.share(reached.config) >= 0.95


@pytest.mark.parametrize("seed", range(4))
def test_what_is_counted_as_reached_is_what_the_search_returns(benchmarks: Any, seed: int) -> None:
    grid = a_grid(benchmarks, interacting, noise=(-0.04, 0.0, 0.01, 0.03))
    arena = an_arena(benchmarks, grid, seed)
    reached = benchmarks.grid_arena.Reached(arena, worth=WORTH)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    search = Search(arena, grid.space(), grid.profile, study, reached, math.inf, clock=lambda: arena.now)
    assert search.run(benchmarks.grid_arena.GridSession()) == reached.config


def test_a_quad_in_one_process_costs_its_slots_and_a_pair_what_was_recorded(benchmarks: Any) -> None:
    arena = an_arena(benchmarks, a_grid(benchmarks, interacting))
    assert arena.evaluate({**arena.grid.present, "amp": "bf16"}) == 0.0
    assert arena.now == pytest.approx(DUEL_QUADS * 4 * (15 + 1) * 0.01)
    before = arena.now
    arena.evaluate({**arena.grid.present, "channels_last": "on"})
    assert arena.now - before == pytest.approx(10.0)


def test_answers_scatter_as_the_recorded_quads_do(benchmarks: Any) -> None:
    noise = (-0.02, -0.01, 0.0, 0.01, 0.02)
    arena = an_arena(benchmarks, a_grid(benchmarks, lambda config: 1.0, noise=noise))
    present, session = arena.grid.present, benchmarks.grid_arena.GridSession()
    ratios, _, _ = arena.quads((session, session), (present, {**present, "amp": "bf16"}), 500)
    assert {round(ratio, 6) for ratio in ratios} == set(noise)


def test_a_cell_that_failed_costs_time_and_is_no_answer(benchmarks: Any) -> None:
    arena = an_arena(benchmarks, a_grid(benchmarks, interacting, failing="foreach"))
    config = {**arena.grid.present, "optimizer_implementation": "foreach"}
    assert arena.evaluate(config) is None
    assert arena.now > 0
    assert arena.share(config) == 0.0


def test_an_unconfirmed_cell_counts_no_more_than_the_best_confirmed_one(benchmarks: Any) -> None:
    grid = a_grid(benchmarks, interacting)
    best, _ = grid.best()
    lucky = benchmarks.grids.Cell(best, "baton", instances=[[math.log(1.5)]], seconds=[1.0], step_s=0.01)
    grid.confirmed = [lucky]
    assert grid.best() == (best, math.log(1.5))
    assert max(grid.speeds().values()) == math.log(1.5)


def test_a_grid_is_read_as_it_was_written(benchmarks: Any, tmp_path: Path) -> None:
    grid = a_grid(benchmarks, interacting, failing="foreach")
    grid.write(tmp_path)
    again = benchmarks.grids.read_grid(tmp_path, "synthetic")
    assert again == grid
    assert again.missing() == []
    assert benchmarks.grids.read_grid(tmp_path, "another") is None
