"""How often is noise taken for a faster answer? Tunes served models with ``--knob placebo``.

    python -m benchmarks.inference_placebo --runs 40 --budget 40s

Models of ``served_models.py`` by turns; half of the runs alone, half two at once, each of which keeps CPUs
busy beside the other and uses one thread, for two collapse (measurement.md, section 1). Runs that the file of
results has are not made again. Wants a machine that does nothing else: some 45 s a run, or two.
"""

import argparse
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.conditions import conditions
from benchmarks.placebo import told, tune
from benchmarks.served_models import write_workload

MODELS = ("bert", "dlrm", "mobile_net", "lstm")
RESULTS = Path(__file__).parent / "results" / "inference_placebo.json"
AT_ONCE = {"quiet": 1, "beside another": 2}


def main() -> None:
    """Run, count, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=40, help="in all")
    parser.add_argument("--budget", default="40s", help="of each")
    parser.add_argument("--out", type=Path, default=RESULTS, help="written after every run")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    made = {(row["load"], row["seed"]) for row in rows}
    for load, at_once in AT_ONCE.items():
        left = [seed for seed in range(options.runs // len(AT_ONCE)) if (load, seed) not in made]
        with ThreadPoolExecutor(at_once) as pool:
            for row in pool.map(lambda seed, load=load: one(seed, load, options.budget), left):
                rows.append(row)
                print(row, flush=True)
                written = {"conditions": conditions(), "budget": options.budget, "rows": rows}
                options.out.write_text(json.dumps(written, indent=1) + "\n")
    print(f"{sum(row['verdict'] == 'change' for row in rows)} recommendations in {len(rows)} runs")


def one(seed: int, load: str, budget: str) -> dict[str, Any]:
    """One run, whose seed decides its model."""
    name = MODELS[seed % len(MODELS)]
    with tempfile.TemporaryDirectory() as folder:
        path = write_workload(name, Path(folder))
        threads = 1 if AT_ONCE[load] > 1 else None
        return {"model": name, "seed": seed, "load": load} | told(
            tune(path, budget, seed, threads, "--objective", "latency")
        )


if __name__ == "__main__":
    main()
