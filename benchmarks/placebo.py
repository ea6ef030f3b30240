"""How often is noise taken for a gain? Tunes scripts with ``--knob placebo`` and counts recommendations.

    python -m benchmarks.placebo --runs 10 --budget 40s

Every script is tuned so often alone, and as often beside a process that keeps one CPU busy; then it uses one
thread, for two collapse (measurement.md, section 1). Runs that the file of results has are not made again.
Wants a machine that does nothing else.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from advisor.tuners.comparing.looks import MIN_INSTANCES
from benchmarks.conditions import conditions
from benchmarks.record_series import neighbour

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = ("tiny_gpt.py", "gan.py", "mlp_nothing_to_gain.py")
RESULTS = Path(__file__).parent / "results" / "placebo.json"
LOADS = ("quiet", "neighbour")


def main() -> None:
    """Run, count, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10, help="of each script under each load")
    parser.add_argument("--budget", default="40s")
    parser.add_argument("--out", type=Path, default=RESULTS, help="written after every run")
    parser.add_argument("--scripts", nargs="+", default=SCRIPTS)
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=LOADS)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    made = {(row["script"], row["seed"], row["load"]) for row in rows}
    for seed, script, load in itertools.product(range(options.runs), options.scripts, options.loads):
        if (script, seed, load) in made:
            continue
        with neighbour(load == "neighbour"):
            result = tune(EXAMPLES / script, options.budget, seed, threads=1 if load == "neighbour" else None)
        rows.append({"script": script, "seed": seed, "load": load, **told(result)})
        print(rows[-1], flush=True)
        options.out.write_text(json.dumps(summary(rows, options.budget), indent=1) + "\n")
    print(f"{sum(row['verdict'] == 'change' for row in rows)} recommendations in {len(rows)} runs")


def told(result: dict[str, Any]) -> dict[str, Any]:
    """What one run found."""
    speedup, noise = result["recommendation"]["speedup"], result["noise"]
    return {
        "verdict": result["recommendation"]["verdict"],
        "confirmed_over": speedup["instances"],
        "estimate": round(speedup["estimate"], 4),
        "aa": round(noise["aa_ratio"]["estimate"], 4),
        "contended": noise["contended"],
        "trials": len(result["trials"]),
        "seconds": round(result["budget"]["seconds"], 1),
    }


def summary(rows: list[dict[str, Any]], budget: str) -> dict[str, Any]:
    """What is written: conditions, counts under each load, and every run."""
    return {
        "conditions": conditions(),
        "budget": budget,
        "loads": {load: counted([row for row in rows if row["load"] == load]) for load in LOADS},
        "rows": rows,
    }


def counted(rows: list[dict[str, Any]]) -> dict[str, int]:
    """How many runs, confirmations by as many pairs of processes as may confirm, and recommendations."""
    return {
        "runs": len(rows),
        "reached_a_confirmation": sum(row["confirmed_over"] >= MIN_INSTANCES for row in rows),
        "recommended": sum(row["verdict"] == "change" for row in rows),
    }


def tune(
    script: Path, budget: str, seed: int, threads: int | None, *extra: str, command: str = "advisor"
) -> dict[str, Any]:
    """One run of the command line on a script, with further options; its result."""
    with tempfile.TemporaryDirectory() as folder:
        words = [
            sys.executable, "-m", command, "tune", str(script), "--knob", "placebo", "--budget", budget,
            "--seed", str(seed), "--out", f"{folder}/report", "--storage", f"sqlite:///{folder}/studies.db",
            "--quiet", *extra,
        ]  # fmt: skip
        environment = os.environ | ({} if threads is None else {"OMP_NUM_THREADS": str(threads)})
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment)
        result: dict[str, Any] = json.loads(Path(folder, "report", "result.json").read_text())
        return result


if __name__ == "__main__":
    main()
