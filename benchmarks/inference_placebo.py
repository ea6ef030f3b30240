"""How often is noise taken for a faster answer? Tunes served models with ``--knob placebo``.

    python -m benchmarks.inference_placebo --runs 40 --budget 40s
    python -m benchmarks.inference_placebo --runs 40 --budget 1m --nominated

Models of ``served_models.py`` by turns; half of the runs alone, half beside a process that keeps one CPU
busy, with one thread, for two collapse (measurement.md, section 1). Searches hardly ever nominate the
placebo: with ``--nominated`` each one does, so that fresh processes and the tails of requests decide. Runs
that the file of results has are not made again. Wants a machine that does nothing else: some 10 s a run, 45 s
where the placebo is nominated.
"""

import argparse
import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.conditions import conditions
from benchmarks.placebo import LOADS, told, tune
from benchmarks.record_series import neighbour
from benchmarks.served_models import write_workload

MODELS = ("bert", "dlrm", "mobile_net", "lstm")
RESULTS = Path(__file__).parent / "results" / "inference_placebo.json"
NOMINATED = RESULTS.with_stem("inference_placebo_nominated")


def main() -> None:
    """Run, count, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=40, help="in all")
    parser.add_argument("--budget", default="40s", help="of each")
    parser.add_argument("--out", type=Path, help="written after every run; default: under results/")
    parser.add_argument("--nominated", action="store_true", help="every search nominates the placebo")
    options = parser.parse_args()
    command = "benchmarks.nominated" if options.nominated else "advisor"
    out = options.out or (NOMINATED if options.nominated else RESULTS)
    rows: list[dict[str, Any]] = json.loads(out.read_text())["rows"] if out.exists() else []
    made = {(row["load"], row["seed"]) for row in rows}
    for load, seed in itertools.product(LOADS, range(options.runs // len(LOADS))):
        if (load, seed) in made:
            continue
        name, busy = MODELS[seed % len(MODELS)], load == "neighbour"
        with tempfile.TemporaryDirectory() as folder, neighbour(busy):
            path = write_workload(name, Path(folder))
            result = tune(
                path, options.budget, seed, 1 if busy else None, "--objective", "latency", command=command
            )
        rows.append({"model": name, "seed": seed, "load": load, **told(result)})
        print(rows[-1], flush=True)
        written = {"conditions": conditions(), "budget": options.budget, "rows": rows}
        out.write_text(json.dumps(written, indent=1) + "\n")
    print(f"{sum(row['verdict'] == 'change' for row in rows)} recommendations in {len(rows)} runs")


if __name__ == "__main__":
    main()
