"""How close does `advisor tune` come to the best that its knobs could give? Every combination is measured.

    python benchmarks/oracle.py --only resnet mlp

For each workload of ``workloads/`` the table in ``grids.py`` names knobs and values: at most 36 combinations.
Each is compared with the default by the tuner's own arena, the best ones once more on fresh processes; then
`advisor tune` gets the same knobs, and what it recommends runs side by side with the best cell and with the
default. Written to ``results/oracle/<workload>.json`` after every cell; what is found there is kept, and
``results/oracle.json`` sums up all workloads that are there. Wants a machine that does nothing else, for some
hours.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conditions import conditions
from grids import MOST_CELLS, RESULTS, TABLES, WORKLOADS, Cell, Grid, applicable, read_grid, reduced
from side_by_side import CONFIRMING, MOST_PAIRS, Bench, bench

from advisor.advice.advise import advise
from advisor.base.atomic_file import write_atomically
from advisor.base.durations import parse_duration
from advisor.base.errors import TargetError
from advisor.rules import RULES
from advisor.stages.diagnosing.guidance import priorities
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.comparing.ways import LIVE
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.space.space import build_space
from advisor.tuners.supervision.failures import TrialFailed

NEAR = 0.05  # log ratio below the best confirmed one, within which a cell is measured again
MOST_CONFIRMED = 3
SAME_MACHINE = ("cpu", "cpu_capability", "bf16_units", "cpus_allowed", "torch")


def main() -> None:
    """Measure what is missing, tune, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(TABLES), default=list(TABLES), metavar="WORKLOAD")
    parser.add_argument("--budget", default="5m", help="of each tuning, unless its table asks for more")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--grid-only", action="store_true", help="measure cells, tune nothing")
    what.add_argument("--tune-only", action="store_true", help="tune again on grids that are there")
    what.add_argument("--compare-only", action="store_true", help="compare once more what was recommended")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the grids")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # num_threads is a knob where it is a question
    for workload in options.only:
        try:
            grid = taken(workload, options)
        except (TargetError, TrialFailed) as failed:
            print(f"{workload}: {failed}", flush=True)
            continue
        print(told(grid), flush=True)
        sum_up(options.out)


def taken(workload: str, options: argparse.Namespace) -> Grid:
    """One workload: what is missing of its grid and of its tuning is measured."""
    grid = read_grid(options.out, workload)
    if not (options.tune_only or options.compare_only):
        grid = measured(workload, grid, options.out)
    if grid is None or grid.missing() or _to_confirm(grid) is not None:
        raise SystemExit(f"{workload}: the grid is not complete; run without --tune-only or --compare-only")
    if options.tune_only or (grid.tuned is None and not options.grid_only):
        _refuse_other_machine(grid)
        before = _before(grid)
        grid.tuned = {**tuned(grid, options.budget), **before}
        grid.write(options.out)
    compares = options.compare_only or (not options.grid_only and "over_best" not in (grid.tuned or {}))
    if grid.tuned is not None and "failed" not in grid.tuned and compares:
        _refuse_other_machine(grid)
        grid.tuned |= compared(grid, grid.tuned["config"])
    grid.write(options.out)
    return grid


def measured(workload: str, grid: Grid | None, out: Path) -> Grid:
    """The grid with all its cells, and the best ones confirmed."""
    if grid is not None:
        _refuse_other_machine(grid)
        if not grid.missing() and _to_confirm(grid) is None:
            return grid
    with bench(workload) as running:
        grid = _begun(running, grid)
        present = grid.present
        running.arena.present = grid.own
        search = build_space(KNOBS, grid.profile, named=dict(grid.knobs))
        missing = sorted(
            grid.missing(), key=lambda config: running.arena.how(present, config) != LIVE
        )  # those that share a process first
        for number, config in enumerate(missing, start=1):
            cell = running.cell(present, config, search.check(config))
            grid.cells.append(cell)
            grid.start_s = running.start_s or grid.start_s
            grid.write(out)
            print(f"{workload} {number}/{len(missing)}: {grid.changes(config)}: {_cell(cell)}", flush=True)
        while (again := _to_confirm(grid)) is not None:
            cell = running.confirmed(present, again)
            grid.confirmed.append(cell)
            grid.write(out)
            print(f"{workload} again: {grid.changes(cell.config)}: {_cell(cell)}", flush=True)
    return grid


def _begun(running: Bench, grid: Grid | None) -> Grid:
    """The grid found, if its knobs and its default are still the same; else a new one, without cells."""
    choices, left_out = applicable(TABLES[running.workload], KNOBS, running.profile)
    present = {name: values[0] for name, values in choices.items()}
    if grid is not None and (grid.knobs, grid.present) == (choices, present):
        return grid
    profile, found = running.profile, list[Any]()
    try:
        profile = running.diagnosed()
        found = advise(profile, RULES)
    except (TrialFailed, SessionEnded) as end:
        print(f"{running.workload}: it could not be profiled, priorities are unknown: {end}")
    profile = reduced(profile)
    fresh = Grid(
        running.workload,
        conditions(),
        profile,
        present,
        dict(build_space(KNOBS, profile, named=dict(choices)).own),
        choices,
        left_out,
        priorities(found),
        running.arena.step_s,
        running.arena.steps(),
        running.arena.sigma,
    )
    if len(fresh.configs()) > MOST_CELLS:
        raise SystemExit(f"{running.workload}: {len(fresh.configs())} cells; {MOST_CELLS} are the limit")
    if grid is not None:
        kept = fresh.configs()
        space = fresh.space()
        same = grid.present == present
        fresh.cells = [cell for cell in grid.cells if same and space.complete(cell.config) in kept]
    return fresh


def _to_confirm(grid: Grid) -> dict[str, Value] | None:
    """The next cell to measure again: one that may still be the best, among the three that looked best."""
    space = grid.space()
    again = {space.complete(cell.config): cell for cell in grid.confirmed}
    scores = {space.complete(cell.config): cell.log_ratio for cell in grid.cells if cell.state == "measured"}
    seen = [cell.log_ratio for cell in again.values() if cell.state == "measured"]
    best = max(seen or scores.values(), default=0.0)
    for config in sorted(scores, key=lambda each: -scores[each])[:MOST_CONFIRMED]:
        if config not in again and scores[config] >= best - NEAR:
            return grid.by_config()[config].config
    return None


def tuned(grid: Grid, budget: str) -> dict[str, Any]:
    """What ``advisor tune`` recommends on the knobs of a grid."""
    least = TABLES[grid.workload].budget
    if least and parse_duration(least) > parse_duration(budget):
        budget = least
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "advisor", "tune", str(WORKLOADS / f"{grid.workload}.py"),
            "--budget", budget, "--objective", "throughput", "--out", f"{folder}/report",
            "--storage", f"sqlite:///{folder}/studies.db", "--quiet",
        ]  # fmt: skip
        for name, values in grid.knobs.items():
            command += ["--knob", f"{name}={','.join(map(str, values))}"]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
        if ran.returncode != 0:
            return {"budget": budget, "failed": ran.stderr.strip().splitlines()[-1:], "code": ran.returncode}
        result: dict[str, Any] = json.loads(Path(folder, "report", "result.json").read_text())
    seconds = time.monotonic() - began
    recommendation = result["recommendation"]
    config = {**grid.present, **recommendation["config"]}
    trials = [trial for trial in result["trials"] if trial["stage"] in ("screen", "search")]
    rejected = [
        entry for entry in result["not_tried"] if entry["reason"].startswith("tried, not recommended")
    ]
    return {
        "conditions": conditions(),
        "budget": budget,
        "config": config,
        "verdict": recommendation["verdict"],
        "reason": recommendation["reason"],
        "rejected": {entry["knob"]: entry["reason"] for entry in rejected},
        "evaluations": len(trials),
        "seconds": seconds,
        "stopped_by": result["budget"]["stopped_by"],
        "speedup": recommendation["speedup"]["estimate"],
    }


def compared(grid: Grid, config: Mapping[str, Value]) -> dict[str, dict[str, float]]:
    """What was recommended beside the default and beside the best cell, the latter with more pairs."""
    with bench(grid.workload) as running:
        running.arena.present = grid.own
        return {
            "over_default": _ratio(running, grid.present, config, CONFIRMING),
            "over_best": _ratio(running, grid.best()[0], config, MOST_PAIRS),
        }


def _ratio(
    running: Bench, first: Mapping[str, Value], second: Mapping[str, Value], most: int
) -> dict[str, float]:
    """Ratio of speeds, second over first, with its interval; exactly 1 for the same configuration."""
    same = first == second
    estimate = Estimate(0.0, 0.0, 0.0, 1.0, 0, 0) if same else running.ratio(first, second, most)
    ratio, low, high = estimate.ratio
    return {"ratio": ratio, "low": low, "high": high, "pairs": estimate.instances}


def _before(grid: Grid) -> dict[str, Any]:
    """What an earlier tuning of the same grid came to, the first of them, under ``before``."""
    earlier = grid.tuned or {}
    names = ("seconds", "evaluations", "over_default", "over_best")
    if not {*names} <= earlier.keys():
        return {}
    return {"before": earlier.get("before") or {name: earlier[name] for name in names}}


def _refuse_other_machine(grid: Grid) -> None:
    now, machine = conditions(), grid.profile.machine
    measured_on = {
        "cpu_capability": machine.cpu_capability,
        "bf16_units": (machine.bf16_speedup or 0.0) > 1,
        **grid.conditions,
    }
    different = [name for name in SAME_MACHINE if measured_on[name] != now[name]]
    if different:
        raise SystemExit(
            f"{grid.workload} was measured under another {', '.join(different)}; move its file away, or --out"
        )


def _cell(cell: Cell) -> str:
    if cell.state != "measured":
        return f"{cell.state}: {cell.reason.splitlines()[0] if cell.reason else ''}"
    forbidden = f" (never proposed: {cell.forbidden})" if cell.forbidden else ""
    return f"{math.exp(cell.log_ratio):.3f}x by {cell.how} in {sum(cell.seconds):.0f} s{forbidden}"


def told(grid: Grid) -> str:
    """One workload in a line."""
    best, speed = grid.best()
    text = f"{grid.workload:18} best {math.exp(speed):5.2f}x ({grid.changes(best)})"
    if grid.tuned is None or grid.tuned.keys().isdisjoint(("failed", "over_best")):
        return text
    if "failed" in grid.tuned:
        return f"{text}; tuning failed: {' '.join(grid.tuned['failed'])}"
    found = grid.tuned
    return (
        f"{text}; recommended {found['over_default']['ratio']:5.2f}x ({grid.changes(found['config'])}), "
        f"{found['over_best']['ratio']:.1%} of the best; "
        f"{found['evaluations']} evaluations, {found['seconds']:.0f} s"
    )


def sum_up(folder: Path) -> None:
    """Write and print what all workloads of a folder that were tuned come to."""
    grids = [grid for name in TABLES if (grid := read_grid(folder, name)) is not None]
    rows = [_row(grid, grid.tuned) for grid in grids if grid.tuned is not None and "over_best" in grid.tuned]
    if not rows:
        return
    found = {
        "workloads": len(rows),
        "failed": [grid.workload for grid in grids if grid.tuned is not None and "failed" in grid.tuned],
        "median": statistics.median(row["over_best"]["ratio"] for row in rows),
        "worst": min(row["over_best"]["ratio"] for row in rows),
        "slower_than_default": [row["workload"] for row in rows if row["over_default"]["high"] < 1],
        "evaluations_median": statistics.median(row["evaluations"] for row in rows),
        "seconds_median": statistics.median(row["seconds"] for row in rows),
    }
    print(json.dumps(found), flush=True)
    document = {**found, "rows": rows}
    write_atomically(folder.with_suffix(".json"), json.dumps(document, indent=1) + "\n")


def _row(grid: Grid, found: Mapping[str, Any]) -> dict[str, Any]:
    best, speed = grid.best()
    return {
        "workload": grid.workload,
        "conditions": grid.conditions,
        "cells": len(grid.configs()),
        "best": grid.changes(best),
        "best_over_default": math.exp(speed),
        "recommended": grid.changes(found["config"]),
        "tuned_under": found.get("conditions", grid.conditions),
        "before": found.get("before"),
        **{name: found[name] for name in ("over_default", "over_best", "evaluations", "seconds", "reason")},
    }


if __name__ == "__main__":
    main()
