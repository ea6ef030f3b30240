"""Are ceilings honest? `python benchmarks/ceilings.py` repairs planted faults by hand and measures the gain.

For each script of ``tests/planted/faults`` named below: the ceiling that `advisor profile` states, and beside
it what the repair (``--repaired``) really gives, in whole windows of alternating processes. The gain must
not exceed the ceiling beyond noise. Wants a quiet machine; about fifteen minutes.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from conditions import conditions

from advisor.tuners.launching.launch import Launcher
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.trial.look_messages import Observe, Observed
from advisor.tuners.trial.spec import Target

FAULTS = Path(__file__).parents[1] / "tests" / "planted" / "faults"
RESULTS = Path(__file__).parent / "results" / "ceilings.json"
PAIRS = 3  # of processes, in the order A B B A ...
WINDOW_S = 4.0
CLOSE = ("input", "optimizer", "evaluation", "save", "debug")  # kinds whose ceiling must also be near
KINDS = {
    "slow_item": "input",
    "slow_collate": "input",
    "slow_storage": "input",
    "worker_restart": "input",
    "workers_on_memory_data": "input",
    "optimizer_bound": "optimizer",
    "single_tensor_optimizer": "optimizer",
    "zeroed_gradients": "optimizer",
    "evaluation_bound": "evaluation",
    "gradients_in_evaluation": "evaluation",
    "checkpoint_bound": "save",
    "debug_mode": "debug",
    "logging_bound": "host",
    "unattributed_time": "host",
    "garbage_collection": "host",
    "double_precision": "compute",
    "indexing_loop": "compute",
    "needless_checkpointing": "compute",
}


def stated(path: Path) -> dict[str, Any] | None:
    """The finding of the script's own rule."""
    command = [
        sys.executable,
        "-m",
        "advisor",
        "profile",
        str(path),
        "--format",
        "json",
        "--quiet",
        "--budget",
        "30s",
        "--steps-planned",
        "1000",
    ]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    rule = path.stem.partition("__")[0]
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return next((f for f in findings if f["rule"] == rule and f["ceiling"] is not None), None)


def seconds_per_step(path: Path, arguments: tuple[str, ...], folder: Path) -> float:
    """Mean over a window of a fresh process, with everything that comes between steps."""
    with Launcher(Target("script", str(path), arguments, str(path.parent)), folder) as launcher:
        session = launcher.start(0, {}, {})
        try:
            session.first_step()
            session.slot(10, drop=0)
            wall_ns = session.ask(Observe(WINDOW_S, 1, 4 * WINDOW_S), Observed, 120.0).wall_ns
        except SessionEnded:
            raise SystemExit(f"{path.name} ended before its window") from None
        finally:
            session.kill()
    return sum(wall_ns) / len(wall_ns) / 1e9


def gain(path: Path) -> dict[str, float]:
    """Share of the time that the repair takes away: median and range over pairs of processes."""
    shares = []
    for pair in range(PAIRS):
        order = ((), ("--repaired",)) if pair % 2 == 0 else (("--repaired",), ())
        times = {}
        for arguments in order:
            with tempfile.TemporaryDirectory() as folder:
                times[arguments] = seconds_per_step(path, arguments, Path(folder))
        shares.append(1 - times[("--repaired",)] / times[()])
    return {"median": statistics.median(shares), "low": min(shares), "high": max(shares)}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(KINDS), help="rules")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = []
    for path in sorted(FAULTS.glob("*.py")):
        rule = path.stem.partition("__")[0]
        if rule not in options.only:
            continue
        finding = stated(path)
        if finding is None:
            print(f"{path.stem}: no ceiling")
            rows.append({"script": path.stem, "rule": rule, "kind": KINDS[rule], "ceiling": None})
            continue
        measured = gain(path)
        ceiling = finding["ceiling"]
        noise = (measured["high"] - measured["low"]) / 2
        row = {
            "script": path.stem,
            "rule": rule,
            "kind": KINDS[rule],
            "ceiling": ceiling,
            "measured": measured,
            "within": measured["median"] <= ceiling["high"] + noise,
            "ratio": ceiling["share"] / measured["median"] if measured["median"] > 0 else math.inf,
        }
        row["ratio"] = min(row["ratio"], 1e6)
        rows.append(row)
        print(
            f"{path.stem}: at most {ceiling['share']:.0%} ({ceiling['low']:.0%} to {ceiling['high']:.0%}, "
            f"{ceiling['from']}); repaired {measured['median']:.0%} "
            f"({measured['low']:.0%} to {measured['high']:.0%})"
            f"{'' if row['within'] else '  EXCEEDED'}",
            flush=True,
        )
        options.out.write_text(json.dumps({"conditions": conditions(), "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
