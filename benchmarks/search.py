"""How many evaluations until 95 % of the best cell? Advisor's search beside others, on measured grids.

    python benchmarks/search.py

Needs the grids that `benchmarks/oracle.py` has written; starts no training. Every search asks the grid of a
workload cell by cell and gets answers with the noise that was recorded; it has arrived when what it would
return, were it stopped, reaches 95 % of the best cell's true speed, unless it returns less at its end. Fifty
seeds each. The others compare each configuration with the default once: Optuna's TPE and Gaussian process
without any help, random search, and one knob after the other. Seconds are recorded ones, of the workload's
machine. A quarter of an hour, mostly for the Gaussian process.
"""

import argparse
import json
import math
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from conditions import conditions
from grid_arena import GridArena, GridSession, Reached, grid_arena
from grids import RESULTS as GRIDS
from grids import TABLES, Grid, read_grid

from advisor.base.settings import Settings, TargetRequest
from advisor.stages.study import Study
from advisor.tuners.comparing.windows import queue_depth
from advisor.tuners.knobs import KNOBS
from advisor.tuners.search.race import WORTH
from advisor.tuners.search.search import Search
from advisor.tuners.space.space import build_space

RESULTS = Path(__file__).parent / "results" / "search.json"
SEEDS = 50
MOST_EVALUATIONS = 60  # of a search without an end of its own
WITHIN = (12, 25)  # evaluations at which shares of arrived searches are shown


@dataclass(frozen=True)
class Arrival:
    """One search. ``evaluations`` and ``seconds`` are ``None`` where it never arrived.

    ``share`` is the true speed of what it had at its end over the best cell's, ``spent`` all its evaluations.
    Searches without an end of their own end where they arrive.
    """

    evaluations: int | None
    seconds: float | None
    share: float
    spent: int


def with_advisor(arena: GridArena, seed: int) -> Reached:
    """The search of ``advisor tune`` as it is, until it converges."""
    grid = arena.grid
    space = build_space(KNOBS, grid.profile, named=dict(grid.knobs))
    reached = Reached(arena, worth=WORTH)
    settings = Settings(target=TargetRequest(kind="script", name=grid.workload), seed=seed)
    study = Study(settings, None, grid.workload, Path())
    search = Search(
        arena,
        space,
        grid.profile,
        study.optuna(grid.step_s),
        reached,
        deadline=math.inf,
        priorities=grid.priorities,
        startup_s=grid.start_s,
        clock=lambda: arena.now,
    )
    reached.settled(search.run(GridSession()))
    return reached


def with_sampler(kind: str) -> Callable[[GridArena, int], Reached]:
    """A search by one of Optuna's samplers at its default settings."""

    def search(arena: GridArena, seed: int) -> Reached:
        import optuna

        samplers: dict[str, Callable[..., optuna.samplers.BaseSampler]] = {
            "TPE": optuna.samplers.TPESampler,
            "GP": optuna.samplers.GPSampler,
            "random": optuna.samplers.RandomSampler,
        }
        study = optuna.create_study(direction="maximize", sampler=samplers[kind](seed=seed))
        space = arena.grid.space()
        distributions: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.CategoricalDistribution(values)
            for name, values in space.choices.items()
        }
        reached = Reached(arena)
        while reached.at is None and reached.evaluations < MOST_EVALUATIONS:
            trial = study.ask(distributions)
            config = space.complete(dict(trial.params))
            score = arena.evaluate(config)
            reached.told(config, score)
            if score is None:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, score)
        return reached

    return search


def one_at_a_time(arena: GridArena, seed: int) -> Reached:
    """Each knob once, in random order, at the best value so far of those before it."""
    space, reached = arena.grid.space(), Reached(arena)
    order = list(space.choices)
    Random(seed).shuffle(order)
    for name in order:
        start = dict(reached.config)
        for value in space.choices[name]:
            if value != start[name]:
                config = space.complete({**start, name: value})
                reached.told(config, arena.evaluate(config))
    return reached


SEARCHES: dict[str, Callable[[GridArena, int], Reached]] = {
    "advisor": with_advisor,
    "TPE": with_sampler("TPE"),
    "GP": with_sampler("GP"),
    "random": with_sampler("random"),
    "one at a time": one_at_a_time,
}


def arrivals(grid: Grid, search: Callable[[GridArena, int], Reached], seeds: int) -> list[Arrival]:
    """One search from each seed."""
    found = []
    for seed in range(seeds):
        arena = grid_arena(grid, seed, queue_depth)
        reached = search(arena, seed)
        evaluations, seconds = reached.at or (None, None)
        found.append(Arrival(evaluations, seconds, arena.share(reached.config), reached.evaluations))
    return found


def summary(found: Sequence[Arrival]) -> dict[str, Any]:
    """Quantiles over searches; ``None`` where a search of that rank never arrived."""
    evaluations = [each.evaluations for each in found]
    seconds = [each.seconds for each in found]
    return {
        "searches": len(found),
        "arrived": sum(each is not None for each in evaluations) / len(found),
        "evaluations_median": _quantile(evaluations, 0.5),
        "evaluations_p90": _quantile(evaluations, 0.9),
        "seconds_median": _quantile(seconds, 0.5),
        "seconds_p90": _quantile(seconds, 0.9),
        **{
            f"within_{most}": sum(each is not None and each <= most for each in evaluations) / len(found)
            for most in WITHIN
        },
        "share_median": statistics.median(each.share for each in found),
        "share_worst": min(each.share for each in found),
    }


def _quantile(values: Sequence[float | None], level: float) -> float | None:
    """The smallest value that this share of all does not exceed."""
    ordered = sorted(math.inf if value is None else value for value in values)
    value = ordered[max(0, math.ceil(level * len(ordered)) - 1)]
    return value if math.isfinite(value) else None


def line(name: str, row: dict[str, Any]) -> str:
    """A row of the table."""
    shown = {
        key: "never" if row[key] is None else f"{row[key]:.0f}"
        for key in ("evaluations_median", "evaluations_p90", "seconds_median", "seconds_p90")
    }
    return (
        f"  {name:14} {shown['evaluations_median']:>6} {shown['evaluations_p90']:>6} evaluations "
        f"{shown['seconds_median']:>6} {shown['seconds_p90']:>6} s   "
        f"arrived {row['arrived']:4.0%}, {row['within_12']:4.0%} within 12, {row['within_25']:4.0%} within 25"
    )


def main() -> None:
    """Replay, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(TABLES), default=list(TABLES), metavar="WORKLOAD")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--grids", type=Path, default=GRIDS, help="folder of the measured grids")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the Gaussian process runs on torch
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rows: dict[str, dict[str, list[Arrival]]] = {}
    for workload in options.only:
        grid = read_grid(options.grids, workload)
        if grid is None or grid.missing() or not grid.confirmed:
            print(f"{workload}: the grid is not complete; `python benchmarks/oracle.py --only {workload}`")
            continue
        best, speed = grid.best()
        print(f"{workload}: best is {grid.changes(best)}, {math.exp(speed):.2f}x; median and 90th percentile")
        rows[workload] = {}
        for name, search in SEARCHES.items():
            rows[workload][name] = arrivals(grid, search, options.seeds)
            print(line(name, summary(rows[workload][name])), flush=True)
    if not rows:
        raise SystemExit("there is no complete grid")
    pooled = {name: [each for row in rows.values() for each in row[name]] for name in SEARCHES}
    print("all workloads")
    for name, found in pooled.items():
        print(line(name, summary(found)))
    document = {
        "conditions": conditions(),
        "seeds": options.seeds,
        "all": {name: summary(found) for name, found in pooled.items()},
        "workloads": {
            workload: {name: summary(found) for name, found in row.items()} for workload, row in rows.items()
        },
    }
    options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
