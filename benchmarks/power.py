"""How large must a gain be, and how long does it take, until advisor sees it? Plants slowdowns of known size.

    python -m benchmarks.power --parts live
    python -m benchmarks.power --parts live --neighbour
    python -m benchmarks.power --parts replayed

Live: ``benchmarks/workloads_power.py`` wastes a share of each step while Python collects garbage by itself;
the live knob ``gc_freeze=manual`` ends that, and a confirmation on fresh processes has to find it. A share of
0 shows what the knob does by itself. Replayed: recorded steps (``benchmarks/record_series.py``) of one arm
are made longer by the same share.

*Detected* means that the 99 % interval excludes zero at one of the looks, *recommendable* that at the end its
lower end exceeds the 2 % that are asked for by default. Seconds begin with the confirmation, the baseline is
not in them.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.base.settings import Settings, TargetRequest
from advisor.stages.baseline import run_baseline, start_at_once
from advisor.stages.baseline_steps import FLOOR
from advisor.stages.confirming.confirmation_plan import instance_quads
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.looks import LOOKS, confirm
from advisor.tuners.comparing.measure import median, moderated
from advisor.tuners.comparing.ways import LIVE
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.trial.spec import Target
from benchmarks.conditions import conditions
from benchmarks.placebo_replay import load, loaded_programs, share_interval
from benchmarks.placebos import BASE, CANDIDATE, PLACEBOS
from benchmarks.record_series import SERIES, neighbour, series_in
from benchmarks.replayed import Clock, Program, ReplayLauncher

RESULTS = Path(__file__).parent / "results" / "power.json"
SCRIPT = Path(__file__).parent / "workloads_power.py"
SHARES = (0.0, 0.03, 0.05, 0.10, 0.30, 1.0, 3.0)
KNOB, PRESENT, CHANGED = "gc_freeze", "off", "manual"
BUDGET_S = 180.0  # of the run whose confirmation this is
REPEATS, REPLAYS = 5, 1000
SOON_S = 60.0


@dataclass(frozen=True)
class Found:
    """What one confirmation made of a planted slowdown.

    ``detected_s`` is the time of the first look whose interval excludes zero, ``None`` where none does.
    """

    workload: str
    loaded: bool
    share: float
    verdict: str
    ratio: tuple[float, float, float]
    recommendable: bool
    seconds: float
    quads: int
    instances: int
    detected_s: float | None


def find(
    arena: Arena,
    settings: Settings,
    arms: tuple[Mapping[str, Value], Mapping[str, Value]],
    **labels: Any,
) -> Found:
    """Measure the baseline, then confirm the second arm against the first, as a tuner does.

    Args:
        arena: Not used before.
        settings: Budget, level and least gain.
        arms: The slower configuration, and the one without the slowdown.
        labels: Workload, load and share, for the result.
    """
    baseline = run_baseline(arena.launcher, arena, settings)
    arena.sigma, arena.present = max(baseline.aa_sigma, FLOOR), arms[0]
    arena.at_once = start_at_once(baseline.profile)
    if baseline.session is not None:
        baseline.session.kill()
    how, quads = arena.how(*arms, fresh=True), instance_quads(arena, settings)
    began, ends = arena.clock(), list[float]()

    def instance(index: int) -> Sequence[float]:
        swapped = index % 2 == 1
        duel = arena.duel(*arms, how=how, quads=quads, swapped=swapped, followed=not swapped)
        ends.append(arena.clock() - began)
        return duel.log_ratios

    level = settings.confidence
    decision, collected = confirm(instance, min_gain=settings.min_gain, level=level, how=how)
    arena.ahead.drop()
    looks = [stop for stop in LOOKS if stop <= len(collected)]
    detected = [ends[stop - 1] for stop in looks if moderated(collected[:stop], level, how).low > 0]
    return Found(
        verdict=decision.verdict,
        ratio=decision.estimate.ratio,
        recommendable=decision.estimate.low > math.log1p(settings.min_gain),
        seconds=ends[-1],
        quads=decision.estimate.quads,
        instances=decision.estimate.instances,
        detected_s=detected[0] if detected else None,
        **labels,
    )


def find_live(share: float, loaded: bool, seed: int) -> Found:
    """Plant a slowdown in a program that runs."""
    if KNOB not in KNOBS:
        raise SystemExit(f"there is no knob {KNOB} to end the slowdown with; `--parts replayed` needs none")
    settings = _settings(str(SCRIPT), seed)
    target = Target("script", str(SCRIPT), ("--share", str(share)), str(SCRIPT.parent))
    with tempfile.TemporaryDirectory() as folder, Launcher(target, Path(folder)) as launcher:
        arms: tuple[dict[str, Value], dict[str, Value]] = ({KNOB: PRESENT}, {KNOB: CHANGED})
        arena = Arena(launcher, KNOBS, arms[0])
        return find(arena, settings, arms, workload=SCRIPT.stem, loaded=loaded, share=share)


def find_replayed(program: Program, share: float, seed: int) -> Found:
    """Plant a slowdown in recorded steps."""
    clock = Clock()

    def factor(config: Mapping[str, Value]) -> float:
        return 1.0 if config.get("placebo") == CANDIDATE["placebo"] else 1.0 + share

    launcher = ReplayLauncher(program, clock, random.Random(f"power {share} {seed}"), factor)
    return find(
        launcher.arena(PLACEBOS[LIVE]),
        _settings(program.name, seed),
        (BASE, CANDIDATE),
        workload=program.name,
        loaded=program.loaded,
        share=share,
    )


def _settings(name: str, seed: int) -> Settings:
    return Settings(target=TargetRequest(kind="script", name=name), budget_s=BUDGET_S, seed=seed)


def summary(found: Iterable[Found]) -> list[dict[str, Any]]:
    """One row per share and load: how often it was seen, how often it could be recommended, and how soon."""
    groups: defaultdict[tuple[float, bool], list[Found]] = defaultdict(list)
    for each in found:
        groups[each.share, each.loaded].append(each)
    return [_row(share, loaded, rows) for (share, loaded), rows in sorted(groups.items())]


def _row(share: float, loaded: bool, rows: Sequence[Found]) -> dict[str, Any]:
    seen = [row.detected_s for row in rows if row.detected_s is not None]
    recommendable = sum(row.recommendable for row in rows)
    return {
        "share": share,
        "load": "loaded" if loaded else "quiet",
        "runs": len(rows),
        "detected": len(seen) / len(rows),
        "detected_95": share_interval(len(seen), len(rows)),
        f"detected_within_{SOON_S:.0f}_s": sum(seconds <= SOON_S for seconds in seen) / len(rows),
        "recommendable": recommendable / len(rows),
        "recommendable_95": share_interval(recommendable, len(rows)),
        "confirmed": sum(row.verdict == "confirmed" for row in rows) / len(rows),
        "median_ratio": median([row.ratio[0] for row in rows]),
        "median_seconds": median([row.seconds for row in rows]),
        "median_seconds_to_detection": median(seen) if seen else None,
        "median_quads": median([row.quads for row in rows]),
        "median_instances": median([row.instances for row in rows]),
        "p90_instances": sorted(row.instances for row in rows)[math.ceil(0.9 * len(rows)) - 1],
    }


def told(row: Mapping[str, Any]) -> str:
    """One line of the table."""
    soon = row["median_seconds_to_detection"]
    return (
        f"{row['share']:4.0%} {row['load']:6} {row['runs']:5} runs: {row['detected']:4.0%} detected"
        f"{'' if soon is None else f' after {soon:.0f} s'}, {row['recommendable']:4.0%} recommendable; "
        f"{row['median_ratio']:.3f}x, {row['median_seconds']:.0f} s and "
        f"{row['median_quads']:.0f} quads to decide"
    )


def _replay(task: tuple[float, bool, int]) -> Found | None:
    share, loaded, seed = task
    programs = [program for program in loaded_programs() if program.loaded == loaded]
    return find_replayed(programs[seed % len(programs)], share, seed) if programs else None


def replayed(shares: Sequence[float], replays: int, folder: Path, workers: int) -> list[Found]:
    """Replay every share on quiet and on loaded series, each seed on one of them."""
    tasks = [(share, loaded, seed) for share in shares for loaded in (False, True) for seed in range(replays)]
    with multiprocessing.get_context("spawn").Pool(workers, load, (series_in(folder),)) as pool:
        found = pool.map(_replay, tasks, chunksize=max(1, len(tasks) // 200))
    return [each for each in found if each is not None]


def live(shares: Sequence[float], repeats: int, loaded: bool) -> Iterator[Found]:
    """Confirm every share several times on this machine, in turn."""
    with neighbour(loaded):
        for seed in range(repeats):
            for share in shares:
                yield find_live(share, loaded, seed)


def write(path: Path, part: str, rows: list[dict[str, Any]]) -> None:
    """Put the rows of one part into the file; other parts, and the other load of this one, stay."""
    result: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    loads = {row["load"] for row in rows}
    kept = [row for row in result.get(part, {}).get("rows", []) if row["load"] not in loads]
    result[part] = {"conditions": conditions(), "budget_s": BUDGET_S, "rows": kept + rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def main() -> None:
    """Run the parts asked for, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=["live", "replayed"], default=["live", "replayed"])
    parser.add_argument("--shares", nargs="+", type=float, default=SHARES)
    parser.add_argument("--repeats", type=int, default=REPEATS, help="of each share, live")
    parser.add_argument("--replays", type=int, default=REPLAYS, help="of each share and load")
    parser.add_argument("--neighbour", action="store_true", help="live: another process keeps one CPU busy")
    parser.add_argument("--series", type=Path, default=SERIES, metavar="FOLDER")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if "live" in options.parts:
        found: list[Found] = []
        for each in live(options.shares, options.repeats, options.neighbour):
            found.append(each)
            print(told(summary([each])[0]), flush=True)
            write(options.out, "live", summary(found))
    if "replayed" in options.parts:
        rows = summary(replayed(options.shares, options.replays, options.series, options.workers))
        for row in rows:
            print(told(row))
        write(options.out, "replayed", rows)


if __name__ == "__main__":
    main()
