"""How often is noise taken for a gain? Replays advisor's whole decision with recorded step series.

    python -m benchmarks.record_series            (and once more with --neighbour)
    python -m benchmarks.placebo_replay

A replay is the baseline with its A/A comparison, the search over three knobs that change nothing, and the
confirmation of what the search nominates; see ``benchmarks/replayed.py`` for what stands in for processes.
It is made three times: with knobs that are compared live, by process pairs, and over whole windows. Beside
it stands how often the intervals of ``within`` and ``moderated`` cover the truth, a ratio of 1.

What is expected of a program's processes is learnt from the other programs (``benchmarks.learn_spread``):
users' programs are not among those that were recorded either. All replays share the few processes that were
recorded: bounds speak of these, on those machines. Intervals by bootstrap take 20 quads, which series of 16
seconds a process hold.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from advisor.base.settings import Settings, TargetRequest
from advisor.base.signals import StopRequests
from advisor.report.progress import PlainProgress
from advisor.stages.baseline import run_baseline
from advisor.stages.baseline_steps import FLOOR
from advisor.stages.batch_size import Batches
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.confirmation import Confirmation
from advisor.stages.confirming.confirmation_plan import LARGE_SPEED, instance_quads, reserve_s
from advisor.stages.launching import Caller
from advisor.stages.search_plan import SEARCH_SHARE
from advisor.stages.trials import TrialLog
from advisor.tuners.comparing import measure
from advisor.tuners.comparing.looks import LOOKS, MIN_INSTANCES
from advisor.tuners.comparing.measure import BLOCK, Estimate, moderated, robust_sigma, within
from advisor.tuners.comparing.ways import LIVE
from advisor.tuners.knob import Value
from advisor.tuners.search.search import Search
from advisor.tuners.space.space import build_space
from benchmarks.conditions import conditions
from benchmarks.learn_spread import learn
from benchmarks.placebos import BASE, BUDGET_S, CANDIDATE, PLACEBOS
from benchmarks.record_series import SERIES, by_program, read, series_in
from benchmarks.replayed import Clock, Factor, Program, ReplayLauncher

RESULTS = Path(__file__).parent / "results" / "placebo_replay.json"
REPLAYS = 125
MOST_FALSE = 0.01  # of all replays; the upper bound must not exceed it
LEVELS = (0.95, 0.99)
WITHIN_QUADS = (12, 24)  # a t-interval, and a bootstrap over blocks
LEAST_QUADS = 3
COVERED = 6  # pairs whose intervals are checked, beside the fewest and the most


@dataclass(frozen=True)
class Decided:
    """What advisor made of one replay; ``instances`` are 0 where nothing was confirmed."""

    workload: str
    loaded: bool
    how: str
    seed: int
    nominated: bool
    recommended: bool
    config: dict[str, Value]
    instances: int
    ratio: tuple[float, float, float] | None
    seconds: float


class Covering(NamedTuple):
    """Whether one interval holds the truth."""

    interval: str
    how: str
    loaded: bool
    level: float
    covered: bool


def decide(
    program: Program,
    seed: int,
    how: str = LIVE,
    *,
    budget_s: float = BUDGET_S,
    factor: Factor = lambda config: 1.0,
) -> Decided:
    """Replay the whole decision: the stages of ``advisor.runs.tune`` in their order.

    Args:
        program: What was recorded.
        seed: Of the draws of processes and places, and of the search's sampler.
        how: How the knobs are compared.
        budget_s: Simulated.
        factor: What a configuration makes of the time of a step.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    clock, knobs = Clock(), PLACEBOS[how]
    launcher = ReplayLauncher(program, clock, random.Random(seed), factor)
    request = TargetRequest(kind="script", name=program.name)
    settings = Settings(target=request, budget_s=budget_s, knobs=dict.fromkeys(knobs), seed=seed)
    arena = launcher.arena(knobs)
    baseline = run_baseline(arena.launcher, arena, settings)
    arena.sigma, arena.threads = max(baseline.aa_sigma, FLOOR), program.threads
    space = build_space(knobs, baseline.profile, named=settings.knobs, detectable=baseline.detectable)
    arena.present = space.own
    end = min(budget_s - reserve_s(arena, baseline, settings), SEARCH_SHARE * budget_s)
    progress = PlainProgress(sys.stderr, quiet=True)
    bench = MeasuredBench(settings, Caller(progress, StopRequests()), arena.launcher, arena, 0.0, baseline)
    log = TrialLog(progress, clock.monotonic, budget_s, baseline=space.present)
    search = Search(
        arena,
        space,
        baseline.profile,
        optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed)),
        log,
        deadline=max(clock.now, end),
        clock=clock.monotonic,
    )
    nominee = search.run(baseline.session)
    batches = Batches(settings, progress)
    gain = search.score  # a large one asks for one quad a pair
    outcome = Confirmation(bench, space, log, batches, search.next_number, gain).decide(nominee)
    estimate = None if outcome.decision is None else outcome.decision.estimate
    return Decided(
        workload=program.name,
        loaded=program.loaded,
        how=how,
        seed=seed,
        nominated=nominee != space.present,
        recommended=outcome.verdict == "change",
        config=dict(outcome.config),
        instances=0 if estimate is None else estimate.instances,
        ratio=None if estimate is None else estimate.ratio,
        seconds=clock.now,
    )


def cover(program: Program, seed: int) -> Iterator[Covering]:
    """Compare the program with itself in fresh instances, and see which intervals hold 1."""
    clock = Clock()
    launcher = ReplayLauncher(program, clock, random.Random(f"cover {seed}"))
    settings = Settings(target=TargetRequest(kind="script", name=program.name), budget_s=BUDGET_S)
    for how, knobs in PLACEBOS.items():
        arena = launcher.arena(knobs)
        arena.step_s, arena.sigma, arena.threads = program.step_s, FLOOR, program.threads
        held = program.shortest // (4 * (arena.steps() + 1))  # more quads would repeat what was recorded
        ratios: list[float] = []
        if how == LIVE:
            for quads in WITHIN_QUADS:
                ratios = arena.duel(BASE, CANDIDATE, how=how, quads=min(quads, held)).log_ratios
                name = "within, bootstrap" if len(ratios) >= 4 * BLOCK else "within, t-interval"
                if len(ratios) >= LEAST_QUADS:
                    intervals = [within(ratios, level) for level in LEVELS]
                    yield from _covering(name, how, program.loaded, intervals)
        sizes = {"": instance_quads(arena, settings)}
        if how == LIVE:
            arena.sigma = max(FLOOR, robust_sigma(ratios))
            sizes[" of a large gain"] = instance_quads(arena, settings, speed=LARGE_SPEED, how=how)
        for size, quads in sizes.items():
            instances = [
                arena.duel(BASE, CANDIDATE, how=how, quads=quads, swapped=index % 2 == 1).log_ratios
                for index in range(LOOKS[-1])
            ]
            for count in (LOOKS[0], COVERED, LOOKS[-1]):
                intervals = [moderated(instances[:count], level, how) for level in LEVELS]
                yield from _covering(f"between, {count} instances{size}", how, program.loaded, intervals)


def _covering(name: str, how: str, loaded: bool, intervals: Iterable[Estimate]) -> Iterator[Covering]:
    for interval in intervals:
        yield Covering(name, how, loaded, interval.level, interval.low <= 0.0 <= interval.high)


def upper_bound(hits: int, count: int, level: float = 0.95) -> float:
    """The largest probability that ``hits`` of ``count`` leave possible, one-sided (Clopper and Pearson)."""
    from scipy.stats import beta

    return 1.0 if hits >= count else float(beta.ppf(level, hits + 1, count - hits))


def share_interval(hits: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """The two-sided interval of a probability (Clopper and Pearson)."""
    one_sided = 0.5 + level / 2
    return 1 - upper_bound(count - hits, count, one_sided), upper_bound(hits, count, one_sided)


def counts(rows: Sequence[Decided]) -> dict[str, Any]:
    """How many of these replays came how far, and what that bounds."""
    false = sum(row.recommended for row in rows)
    bound = upper_bound(false, len(rows))
    return {
        "replays": len(rows),
        "nominated": sum(row.nominated for row in rows),
        "confirmations_completed": sum(row.instances >= MIN_INSTANCES for row in rows),
        "false_recommendations": false,
        "upper_bound_95": bound,
        "within_aim": bound <= MOST_FALSE,
    }


def summary(rows: Sequence[Decided], coverings: Iterable[Covering]) -> dict[str, Any]:
    """Counts by way of comparison and load, by program, coverage, and every false recommendation."""
    decisions = []
    for how in dict.fromkeys(row.how for row in rows):
        for load, wanted in (("all", (False, True)), ("quiet", (False,)), ("loaded", (True,))):
            chosen = [row for row in rows if row.how == how and row.loaded in wanted]
            if chosen:
                decisions.append({"how": how, "load": load, **counts(chosen)})
    of_each = defaultdict[str, list[bool]](list)
    for row in rows:
        of_each[row.workload].append(row.recommended)
    return {
        "decisions": decisions,
        "workloads": {
            name: {"replays": len(each), "false_recommendations": sum(each)}
            for name, each in sorted(of_each.items())
        },
        "coverage": coverage(coverings),
        "false_recommendations": [asdict(row) for row in rows if row.recommended],
    }


def coverage(coverings: Iterable[Covering]) -> list[dict[str, Any]]:
    """Share of intervals that hold the truth, with its own 95 % interval."""
    groups: defaultdict[tuple[str, str, bool, float], list[bool]] = defaultdict(list)
    for each in coverings:
        groups[each[:4]].append(each.covered)
    shown = []
    for (name, how, loaded, level), covered in sorted(groups.items()):
        low, high = share_interval(sum(covered), len(covered))
        row: dict[str, Any] = {"interval": name, "how": how, "load": "loaded" if loaded else "quiet"}
        row |= {"level": level, "instances": len(covered), "covered": sum(covered) / len(covered)}
        shown.append({**row, "low": low, "high": high})
    return shown


_PROGRAMS: list[Program] = []


def load(paths: Sequence[Path], spread: Path | None = None) -> None:
    """Read series, and what is expected of processes where that is another file; once in every worker."""
    measure.SPREAD = spread or measure.SPREAD
    _PROGRAMS[:] = [Program(read(path)) for path in paths]


def loaded_programs() -> Sequence[Program]:
    """What ``load`` read in this process."""
    return _PROGRAMS


def _replay(task: tuple[int, Sequence[str], float]) -> tuple[list[Decided], list[Covering]]:
    seed, hows, budget_s = task
    program = _PROGRAMS[seed % len(_PROGRAMS)]
    return [decide(program, seed, how, budget_s=budget_s) for how in hows], list(cover(program, seed))


def told(decisions: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One line per group."""
    for row in decisions:
        yield (
            f"{row['how']:8} {row['load']:7} {row['replays']:5} replays, {row['nominated']:4} nominated, "
            f"{row['confirmations_completed']:4} confirmed to the end, "
            f"{row['false_recommendations']} false recommendations (at most {row['upper_bound_95']:.2%})"
        )


def main() -> None:
    """Replay, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--replays", type=int, default=REPLAYS, help="of each program, its series in turn")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="simulated seconds of each replay")
    parser.add_argument("--how", nargs="+", choices=list(PLACEBOS), default=list(PLACEBOS))
    parser.add_argument("--series", type=Path, default=SERIES, metavar="FOLDER")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    programs = by_program(series_in(options.series))
    if len(programs) < 2:
        raise SystemExit(f"{options.series} holds one program: its spread is learnt from others")
    began = time.monotonic()
    rows: list[Decided] = []
    coverings: list[Covering] = []
    for name, own in programs.items():
        others = [path for other, paths in programs.items() if other != name for path in paths]
        tasks = [(seed, options.how, options.budget) for seed in range(options.replays)]
        with tempfile.TemporaryDirectory() as folder:
            spread = Path(folder, "spread.json")
            spread.write_text(json.dumps(learn(others)))
            with multiprocessing.get_context("spawn").Pool(options.workers, load, (own, spread)) as pool:
                for decided, covered in pool.imap(_replay, tasks, chunksize=math.ceil(len(tasks) / 20)):
                    rows += decided
                    coverings += covered
    found = summary(rows, coverings)
    for line in told(found["decisions"]):
        print(line)
    result = {
        "conditions": conditions(),
        "budget_s": options.budget,
        "seconds": round(time.monotonic() - began, 1),
        "series": [path.name for paths in programs.values() for path in paths],
        **found,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
