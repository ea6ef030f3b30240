"""How often is noise taken for a gain? Tunes scripts with ``--knob placebo`` and counts recommendations.

    python benchmarks/placebo.py --runs 17 --budget 30s --out benchmarks/results/placebo.json

Wants a machine that does nothing else.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from conditions import conditions

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = ("tiny_gpt.py", "gan.py", "mlp_nothing_to_gain.py")


def main() -> None:
    """Run, count, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=17, help="runs of each script")
    parser.add_argument("--budget", default="30s")
    parser.add_argument("--out", type=Path, help="written after every run; runs found there are kept")
    parser.add_argument("--scripts", nargs="+", default=SCRIPTS)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if options.out and options.out.exists():
        rows = json.loads(options.out.read_text())["rows"]
    for script in options.scripts:
        for run in range(options.runs):
            result = tune(EXAMPLES / script, options.budget, seed=run)
            speedup = result["recommendation"]["speedup"]
            rows.append(
                {
                    "script": script,
                    "seed": run,
                    "verdict": result["recommendation"]["verdict"],
                    "confirmed_over": speedup["instances"],
                    "estimate": round(speedup["estimate"], 4),
                    "aa": round(result["noise"]["aa_ratio"]["estimate"], 4),
                    "contended": result["noise"]["contended"],
                    "trials": len(result["trials"]),
                    "seconds": round(result["budget"]["seconds"], 1),
                }
            )
            print(rows[-1], flush=True)
            if options.out:
                options.out.write_text(json.dumps(summary(rows), indent=1) + "\n")
    print(f"{summary(rows)['recommended']} recommendations in {len(rows)} runs")


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What is written: conditions, counts, and every run."""
    recommended = sum(row["verdict"] == "change" for row in rows)
    confirmations = sum(row["confirmed_over"] >= 6 for row in rows)
    return {
        "conditions": conditions(),
        "runs": len(rows),
        "reached_a_confirmation": confirmations,
        "recommended": recommended,
        "rows": rows,
    }


def tune(script: Path, budget: str, seed: int) -> dict[str, Any]:
    """One run of the command line on a copy-free script; its result."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "advisor", "tune", str(script), "--knob", "placebo", "--budget", budget,
            "--seed", str(seed), "--out", f"{folder}/report", "--storage", f"sqlite:///{folder}/studies.db",
            "--quiet",
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        result: dict[str, Any] = json.loads(Path(folder, "report", "result.json").read_text())
        return result


if __name__ == "__main__":
    main()
