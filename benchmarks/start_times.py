"""Time of commands that only answer, beside bare Python in the same job.

    python benchmarks/start_times.py --out benchmarks/results/start_times.json

Every repeat runs each command once, in another order, so that a busy moment of the machine meets all of
them. Besides the time on the clock the processor time is told, which other work on the machine hardly moves.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conditions import conditions

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

TRIALS = 5000
STUDY = "large"
GOAL_REPORT_S = 5.0
GOAL_HELP_S = 0.4
COMMANDS: dict[str, tuple[str, ...]] = {
    "bare Python": ("-c", "pass"),
    "--help": ("-m", "advisor", "--help"),
    "--version": ("-m", "advisor", "--version"),
    "tune --help": ("-m", "advisor", "tune", "--help"),
    "usage error": ("-m", "advisor", "tune", "nosuch.py"),
    "completion": ("-m", "advisor"),
    "knobs": ("-m", "advisor", "knobs"),
    "rules": ("-m", "advisor", "rules"),
    "studies": ("-m", "advisor", "studies"),
    "report of a file, html": ("-m", "advisor", "report", "large.json", "--format", "html"),
    "report of a file, md": ("-m", "advisor", "report", "large.json", "--format", "md"),
    "report of a study, html": ("-m", "advisor", "report", STUDY, "--format", "html"),
    "report of a study, folder": ("-m", "advisor", "report", STUDY, "--out", "report"),
}
COMPLETION = {
    "_ADVISOR_COMPLETE": "bash_complete", "COMP_WORDS": "advisor tune --knob num", "COMP_CWORD": "3",
}  # fmt: skip


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(folder)
        times = measured(folder, options.repeats)
    rows = {name: summary(samples) for name, samples in times.items()}
    bare = rows["bare Python"]["median_s"]
    for name, row in rows.items():
        row["beyond_python_s"] = round(row["median_s"] - bare, 4)
        print(f"{name:26} {row['median_s']:6.3f} s ({row['low_s']:.3f} to {row['high_s']:.3f}), "
              f"{row['processor_s']:.3f} s of processor time")  # fmt: skip
    document = {
        "conditions": conditions(),
        "repeats": options.repeats,
        "trials_in_report": TRIALS,
        "commands": rows,
        "goals_met": {
            f"--help within {GOAL_HELP_S} s": rows["--help"]["median_s"] <= GOAL_HELP_S,
            f"reports of {TRIALS} trials within {GOAL_REPORT_S} s": all(
                row["median_s"] <= GOAL_REPORT_S for name, row in rows.items() if name.startswith("report")
            ),
        },
    }
    if options.out is not None:
        options.out.write_text(json.dumps(document, indent=2) + "\n")


def lay_out(folder: Path) -> None:
    """A result of many trials, as a file and as a stored study."""
    from result_builder import a_result, many_trials

    from advisor.storage.storage_url import parse_storage
    from advisor.storage.store import Store

    result = a_result(trials=many_trials(TRIALS))
    (folder / "large.json").write_text(result.to_json())
    url = parse_storage(f"sqlite:///{folder}/.advisor/studies.db")
    with Store.open(url, create=True, warn=lambda text: None) as store:
        store.create_study(STUDY, {"target": "train.py"})
        store.save_result(STUDY, result)


def measured(folder: Path, repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds on the clock and of the processor, for every command and repeat."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    names, chance = list(COMMANDS), random.Random(0)
    for repeat in range(repeats + 1):
        chance.shuffle(names)
        for name in names:
            sample = once(COMMANDS[name], folder, COMPLETION if name == "completion" else {})
            if repeat > 0:  # the first brings files into the cache
                times[name].append(sample)
    return times


def once(words: Sequence[str], folder: Path, variables: dict[str, str]) -> tuple[float, float]:
    """Run one command; seconds on the clock and of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=os.environ | variables, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 2):
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}")
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def summary(samples: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Median, quartiles and processor time of a command."""
    clock = sorted(took for took, _ in samples)
    low, high = statistics.quantiles(clock, n=4)[0::2] if len(clock) > 1 else (clock[0], clock[0])
    return {
        "median_s": round(statistics.median(clock), 4),
        "low_s": round(low, 4),
        "high_s": round(high, 4),
        "processor_s": round(statistics.median(spent for _, spent in samples), 4),
    }


if __name__ == "__main__":
    main()
