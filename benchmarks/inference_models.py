"""How close is what `advisor tune --objective latency` recommends to the best that passes the gate?

    python -m benchmarks.inference_models --quick
    python -m benchmarks.inference_models --only bert lstm --budget 3m

Every model of ``served_models.py`` is tuned; then each cell of ``CELLS`` and what was recommended are
compared with the model as it is, in pairs of fresh processes with swapped roles. Those that are faster go
through the accuracy gate, the fastest first, until one passes. Written to ``results/inference_models.json``
after every model, beside what it has of others on such a CPU. Wants a machine that does nothing else: some
four minutes a model.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from advisor.base.errors import AdvisorError
from advisor.base.settings import Settings, TargetRequest, Value
from advisor.base.signals import StopRequests
from advisor.report.progress import PlainProgress
from advisor.stages.bench import MeasuredBench, open_bench, run_unchanged
from advisor.stages.confirming.agreement import AgreementCheck
from advisor.stages.launching import Caller
from advisor.tuners.comparing.measure import moderated
from advisor.tuners.knobs import KNOBS
from advisor.tuners.space.space import build_space
from advisor.tuners.supervision.failures import OutOfTime, TrialFailed
from benchmarks.conditions import conditions
from benchmarks.served_models import MODELS, write_workload

RESULTS = Path(__file__).parent / "results" / "inference_models.json"
QUICK = ("mobile_net", "trained")
CELLS: tuple[dict[str, Value], ...] = (
    {"runtime": "onnxruntime"},
    {"runtime": "onnxruntime", "quantization": "int8_dynamic"},
    {"runtime": "onnxruntime", "quantization": "int8_static"},
    {"quantization": "int8_dynamic"},
    {"execution": "jit_freeze"},
    {"fold_conv_bn": "on"},
    {"channels_last": "on"},
    {"num_threads": 1},
)
PAIRS, QUADS = 2, 3
LEVEL = 0.95
MEASURING_S = 300.0  # that cells and their gates may take
GATE_S = 40.0


def main() -> None:
    """Tune, measure, judge, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS), metavar="MODEL")
    parser.add_argument("--quick", action="store_true", help=f"only {' and '.join(QUICK)}")
    parser.add_argument("--budget", default="2m", help="of each tuning")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = rows_of_this_cpu(options.out)
    failed: dict[str, str] = {}
    for name in QUICK if options.quick else options.only:
        try:
            rows[name] = measured(name, options.budget)
        except (AdvisorError, TrialFailed, subprocess.CalledProcessError) as error:
            failed[name] = str(error)  # the others are still to be measured
        print(f"{name}: {failed.get(name) or json.dumps(rows[name])}", flush=True)
        if not rows:
            continue
        shares = [row["of_best"] for row in rows.values()]
        median = statistics.median(shares)
        told = {"conditions": conditions(), "median_of_best": median, "models": rows, "failed": failed}
        options.out.write_text(json.dumps(told, indent=1) + "\n")
    if rows:
        print(f"median of the best that passes: {median:.3f}")
    if failed:
        raise SystemExit(f"{len(failed)} models were not measured: {', '.join(failed)}")


def rows_of_this_cpu(path: Path) -> dict[str, Any]:
    """What a file has of models measured on such a CPU.

    Raises:
        SystemExit: It has those of another one, beside which nothing is to stand.
    """
    if not path.exists():
        return {}
    told = json.loads(path.read_text())
    if told["conditions"]["cpu"] != conditions()["cpu"]:
        raise SystemExit(f"{path} was measured on {told['conditions']['cpu']}: name another file (--out)")
    rows: dict[str, Any] = told["models"]
    return rows


def measured(name: str, budget: str) -> dict[str, Any]:
    """One model: what is recommended, and every cell, beside the model as it is."""
    with tempfile.TemporaryDirectory(prefix="inference-") as made:
        folder = Path(made)
        path = write_workload(name, folder)
        recommended, reason = tuned(path, folder, budget)
        cells = [dict(cell) for cell in CELLS]
        if recommended and recommended not in cells:
            cells.append(recommended)
        with ExitStack() as stack:
            bench = opened(path, folder, stack)
            found = [cell_of(bench, cell) for cell in cells]
            best = 1.0
            for each in sorted(found, key=lambda each: -each.get("speed", 0.0)):
                if each.get("interval", [0.0])[0] <= 1:  # what is within noise is no better
                    continue
                each |= judged(bench, each["cell"])
                if each["gate"] == "accepted":
                    best = each["speed"]
                    break
        own = next((each["speed"] for each in found if each["cell"] == recommended and "speed" in each), 1.0)
        told = {"recommended": recommended, "reason": reason, "budget": budget}
        return {**told, "speed": own, "best": best, "of_best": own / best, "cells": found}


def tuned(path: Path, folder: Path, budget: str) -> tuple[dict[str, Value], str]:
    """The changes that the command line recommends, and why it recommends no others."""
    command = [
        sys.executable, "-m", "advisor", "tune", str(path), "--objective", "latency", "--budget", budget,
        "--out", f"{folder}/report", "--storage", f"sqlite:///{folder}/studies.db", "--quiet",
    ]  # fmt: skip
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    result = json.loads(Path(folder, "report", "result.json").read_text())
    found = result["recommendation"]
    return {change["knob"]: change["to"] for change in found["changes"]}, found["reason"]


def opened(path: Path, folder: Path, stack: ExitStack) -> MeasuredBench:
    """The model as it is on a bench of the objective."""
    settings = Settings(
        target=TargetRequest(kind="workload", name=str(path)), objective="latency", budget_s=MEASURING_S
    )
    trials = folder / "trials"
    trials.mkdir(mode=0o700)
    caller = Caller(PlainProgress(sys.stderr, quiet=True), stack.enter_context(StopRequests()))
    bench = run_unchanged(stack.enter_context(open_bench(settings, trials, caller, began=time.monotonic())))
    bench.baseline.end()
    return bench


def cell_of(bench: MeasuredBench, cell: dict[str, Value]) -> dict[str, Any]:
    """Speed over the model as it is."""
    space = build_space(KNOBS, bench.profile, named={knob: (value,) for knob, value in cell.items()})
    config = space.complete(cell)
    arena, present = bench.arena, space.present
    if not config.changed(present):
        return {"cell": cell, "failed": "the model is that way"}
    pairs: list[list[float]] = []
    try:
        how = arena.how(present, config, fresh=True)
        for number in range(PAIRS):
            duel = arena.duel(present, config, how=how, quads=QUADS, swapped=number % 2 == 1)
            if declined := {k: why for k, why in duel.second_message.refused.items() if k in cell}:
                return {"cell": cell, "failed": "; ".join(declined.values())}
            pairs.append(duel.log_ratios)
    except TrialFailed as failed:
        return {"cell": cell, "failed": failed.failure.message}
    speed, low, high = moderated(pairs, LEVEL, how).ratio
    return {"cell": cell, "speed": speed, "interval": [low, high]}


def judged(bench: MeasuredBench, cell: dict[str, Value]) -> dict[str, str]:
    """Verdict and reason of the accuracy gate."""
    space = build_space(KNOBS, bench.profile, named={knob: (value,) for knob, value in cell.items()})
    check = AgreementCheck(bench, space, share=GATE_S / bench.room_s if bench.room_s > GATE_S else 1.0)
    config = space.complete(cell)
    try:
        found = check.run(config)
    except (OutOfTime, TrialFailed) as failed:
        return {"gate": "failed", "why": str(failed)}
    accepted = found.config == config
    return {"gate": "accepted" if accepted else "refused", "why": found.reason or found.verdicts[""].reason}


if __name__ == "__main__":
    main()
