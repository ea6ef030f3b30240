"""What several benches bring, on paper: time to the verdict, and whether the answer is as good.

    python -m benchmarks.benches --programs 20
    python -m benchmarks.benches --grids --seeds 5
    python -m benchmarks.benches --placebo 200 --benches 2

Whole runs of ``tune`` over programs whose settings have known effects, drawn by chance, with further benches
whose time runs beside the tuner's (``tests/replayed_benches.py``); or whose settings do what they did where
``benchmarks/oracle.py`` measured them, with the noise seen then, drawn anew with each of ``--seeds``. *Of the
best* is the speed of what is recommended over that of the best configuration of the searched values, by the
known effects. How far it is from what one bench finds is the mean over programs with its 95 % interval; of
one bench it stands beside that of the next seed, of which only the noise differs. In a placebo no setting
does anything, but on each node every configuration seems to, by a spread of ``--node-effect``.
"""

import argparse
import contextlib
import json
import math
import os
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean, stdev

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from grid_programs import GridProgram, recorded
from replayed_benches import ReplayedEngine
from replayed_program import Effect, Program, where
from replaying import replayed
from scipy.stats import t

from advisor.tuners.comparing.measure import median
from advisor.tuners.knob import Value

RESULTS = Path(__file__).parent / "results" / "benches.json"
SETTINGS: Mapping[str, tuple[Value, ...]] = {
    "num_threads": (1, 2, 4), "gc_freeze": ("off", "freeze", "manual"), "malloc": ("libc", "libc-tuned"),
    "cpu_affinity": ("none", "cores"),
}  # fmt: skip
NAMES = "bcdefgh"
EFFECT = 0.12  # spread of what a value makes of a step, in logarithms
BUDGET_S = 7200.0  # that no run uses up


@dataclass(frozen=True)
class Row:
    """One run; ``seconds`` are simulated, to the end of the run, and ``verdict_s`` to its verdict.

    That is when what is recommended was confirmed; where nothing is, the end.
    """

    program: int | str
    benches: int
    startup_s: float
    seconds: float
    verdict_s: float
    trials: int
    verdict: str
    of_best: float
    seed: int = 0


def effects_of(seed: int, *, placebo: bool) -> dict[tuple[str, Value], float]:
    """Log ratio of the time of a step for each value but the present one."""
    shared = random.Random(seed)
    spread = 0.0 if placebo else EFFECT
    return {
        (name, value): shared.gauss(0.0, spread) for name, values in SETTINGS.items() for value in values[1:]
    }


def configurations() -> list[dict[str, Value]]:
    """All of the searched values, that of the program as it is first."""
    return [dict(zip(SETTINGS, values, strict=True)) for values in product(*SETTINGS.values())]


def program_of(
    effects: Mapping[tuple[str, Value], float], node_effect: float, node: int, seed: int, startup_s: float
) -> Program:
    """The program on one node, which adds what it makes of each configuration."""
    own = random.Random(1000 * seed + node)
    told = [Effect(where(**{name: value}), step=math.exp(of)) for (name, value), of in effects.items()]
    if node_effect:
        told += [
            Effect(where(**config), step=math.exp(own.gauss(0.0, node_effect)))
            for config in configurations()[1:]
        ]
    return Program(told, step_s=0.05, startup_s=startup_s, seed=100 * seed + node)


def speed(config: Mapping[str, Value], effects: Mapping[tuple[str, Value], float]) -> float:
    """Of a configuration over the program as it is, without what nodes add."""
    return math.exp(-sum(effects.get((name, value), 0.0) for name, value in config.items()))


def one_run(
    seed: int, benches: int, startup_s: float, node_effect: float = 0.0, *, placebo: bool = False
) -> Row:
    """Tune one program on so many benches."""
    known = effects_of(seed, placebo=placebo)
    programs = [program_of(known, node_effect, node, seed, startup_s) for node in range(benches)]
    best = max(speed(config, known) for config in configurations())
    return _run(seed, programs, startup_s, lambda config: speed(config, known) / best)


def of_grid(grid: GridProgram, benches: int, startup_s: float, seed: int = 0) -> Row:
    """Tune a recorded workload on so many benches."""
    programs = [grid.program(node, startup_s, seed=seed) for node in range(benches)]
    best = max(grid.speeds().values())
    share = lambda config: grid.speed(config) / math.exp(best)  # noqa: E731
    return replace(_run(grid.grid.workload, programs, startup_s, share, grid.knobs), seed=seed)


def _run(
    name: int | str,
    programs: Sequence[Program],
    startup_s: float,
    of_best: Callable[[Mapping[str, Value]], float],
    knobs: Mapping[str, Sequence[Value] | None] | None = None,
) -> Row:
    """Tune what is a program on each node; ``of_best`` is what a configuration reaches."""
    with _own_folder() as folder:
        others = dict(zip(NAMES, programs[1:], strict=False))
        engine = ReplayedEngine(others, folder) if others else None
        options = {} if knobs is None else {"knobs": knobs}
        run = replayed(programs[0], folder, engine=engine, budget_s=BUDGET_S, keep_batch=True, **options)
    found = run.result.recommendation
    confirmed = [each.confirmed_s for each in run.result.trials if each.config == found.config]
    return Row(
        name, len(programs), startup_s, run.launcher.now,
        max(filter(None, confirmed), default=run.launcher.now),
        run.result.budget.trials, found.verdict, of_best(found.config),
    )  # fmt: skip


@contextlib.contextmanager
def _own_folder() -> Iterator[Path]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def table(rows: Sequence[Row]) -> list[str]:
    """Speed-up over one bench, to the verdict and to the end, and what is found, by start and benches."""
    alone = {(row.program, row.startup_s, row.seed): row for row in rows if row.benches == 1}
    medians = "to the verdict, to the end (median) | of the best (mean, worst)"
    lines = [f"start s | benches | {medians} | over alone, worse, better"]
    for startup_s, benches in sorted({(row.startup_s, row.benches) for row in rows}):
        of = [row for row in rows if (row.startup_s, row.benches) == (startup_s, benches)]
        # One alone stands beside another one, of the next seed, of which only the noise differs.
        other = [replace(row, seed=row.seed + (benches == 1)) for row in of]
        pairs = [(row, alone[key]) for row in other if (key := (row.program, startup_s, row.seed)) in alone]
        verdict = median([one.verdict_s / row.verdict_s for row, one in pairs]) if pairs else math.nan
        gain = median([one.seconds / row.seconds for row, one in pairs]) if pairs else math.nan
        quality = f"{fmean(row.of_best for row in of):.3f}, {min(row.of_best for row in of):.3f}"
        lines.append(f"{startup_s:g} | {benches} | {verdict:.2f}, {gain:.2f} | {quality} | {_beside(pairs)}")
    return lines


def _beside(pairs: Sequence[tuple[Row, Row]]) -> str:
    """How far results lie from those of one bench, and how many by more than 2 % below and above it."""
    by_program: dict[int | str, list[float]] = defaultdict(list)
    for row, one in pairs:
        by_program[row.program].append(row.of_best - one.of_best)
    means = [fmean(apart) for apart in by_program.values()]
    if len(means) < 2:
        return "-"
    half = float(t.ppf(0.975, len(means) - 1)) * stdev(means) / math.sqrt(len(means))
    worse = sum(row.of_best < 0.98 * one.of_best for row, one in pairs)
    better = sum(one.of_best < 0.98 * row.of_best for row, one in pairs)
    return f"{fmean(means):+.3f} (+-{half:.3f}), {worse} and {better} of {len(pairs)}"


def main() -> None:
    """Run, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--programs", type=int, default=0)
    parser.add_argument("--grids", nargs="*", help="recorded workloads; all where none is named")
    parser.add_argument("--seeds", type=int, default=1, help="of the noise of each recorded workload")
    parser.add_argument("--placebo", type=int, default=0)
    parser.add_argument("--benches", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--starts", type=float, nargs="+", default=[20.0])
    parser.add_argument("--node-effect", type=float, default=0.03, help="of a placebo")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    rows = [
        one_run(seed, benches, startup_s)
        for seed in range(given.programs)
        for startup_s in given.starts
        for benches in given.benches
    ]
    print("\n".join(table(rows)) if rows else "", flush=True)
    grids = [GridProgram(grid) for grid in recorded()] if given.grids is not None else []
    on_grids = [
        of_grid(grid, benches, startup_s, seed)
        for grid in grids
        if not given.grids or grid.grid.workload in given.grids
        for seed in range(given.seeds)
        for startup_s in given.starts
        for benches in given.benches
    ]
    print("\n".join(table(on_grids)) if on_grids else "", flush=True)
    placebos = [
        one_run(seed, benches, 2.0, given.node_effect, placebo=True)
        for seed in range(given.placebo)
        for benches in given.benches
    ]
    for benches in given.benches if placebos else ():
        false = [row for row in placebos if row.benches == benches and row.verdict == "change"]
        told = f"placebo, {benches} benches, nodes differ by {given.node_effect:g}"
        print(f"{told}: {len(false)} of {given.placebo}")
    before = json.loads(given.out.read_text()) if given.out.exists() else {}
    parts = {"runs": rows, "grids": on_grids, "placebos": placebos}
    new = {name: [asdict(row) for row in part] for name, part in parts.items()}
    given.out.write_text(json.dumps({**before, **{k: v for k, v in new.items() if v}}, indent=1) + "\n")


if __name__ == "__main__":
    main()
