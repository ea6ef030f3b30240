"""Fixed cost of a trial: in a shared process, forked from a warm one, and in a fresh process.

    python -m benchmarks.fixed_cost --out benchmarks/results/fixed_cost.json

The program is a small workload whose own start-up is negligible, so what is measured is ours. Also the time
of ``advisor --help`` beside bare Python, and what it imports.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from advisor.tuners.launching.launch import Launcher
from advisor.tuners.trial.spec import Target
from benchmarks.conditions import conditions

ALONE, BOTH = "fresh process (script)", "two fresh processes at once (script)"
TINY = """
import torch
from advisor.workloads.workload import Workload

class Data(torch.utils.data.Dataset):
    def __len__(self): return 512
    def __getitem__(self, index): return torch.ones(8), index % 2

workload = Workload(model=lambda: torch.nn.Linear(8, 2), dataset=Data, batch_size=8,
                    loss=torch.nn.functional.cross_entropy, optimizer=lambda p: torch.optim.SGD(p, lr=0.1))
"""
SCRIPT = """
import torch
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(100000):
    model(torch.ones(8, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tiny.py").write_text(TINY)
        (folder / "script.py").write_text(SCRIPT)
        times = {
            "in a shared process": shared(folder, options.repeats),
            "forked from a warm process": started(folder, "workload", "tiny.py", options.repeats),
            ALONE: started(folder, "script", "script.py", options.repeats),
            BOTH: started(folder, "script", "script.py", options.repeats, at_once=2),
        }
    times["advisor --help"] = repeated(lambda: quiet("-m", "advisor", "--help"), options.repeats)
    times["bare Python"] = repeated(lambda: quiet("-c", "pass"), options.repeats)
    rows = {
        name: {"median_s": statistics.median(values), "low_s": min(values), "high_s": max(values)}
        for name, values in times.items()
    }
    for name, row in rows.items():
        print(f"{name:28} {row['median_s']:.3f} s ({row['low_s']:.3f} to {row['high_s']:.3f})")
    heavy = imported("--help")
    print(
        f"advisor --help imports {', '.join(heavy) or 'none of torch, optuna, scipy, sqlalchemy, pydantic'}"
    )
    if options.out:
        summary = {"conditions": conditions(), "repeats": options.repeats, "times": rows, "heavy": heavy}
        options.out.write_text(json.dumps(summary, indent=1) + "\n")


def started(folder: Path, kind: str, file: str, repeats: int, at_once: int = 1) -> list[float]:
    """Seconds from the order to start to the end of the process trees, less nothing: one step is run."""
    target = Target(kind, str(folder / file), (), str(folder))
    with Launcher(target, folder / f"{kind} {at_once}") as launcher:

        def run() -> None:
            sessions = [launcher.start(0, {}, {}) for _ in range(at_once)]
            for session in sessions:
                session.first_step()
            for session in sessions:
                session.stop()

        run()
        return repeated(run, repeats)


def shared(folder: Path, repeats: int) -> list[float]:
    """Seconds to switch a live knob in a running process and to measure one step under it."""
    target = Target("workload", str(folder / "tiny.py"), (), str(folder))
    with Launcher(target, folder / "shared") as launcher:
        session = launcher.start(0, {}, {"placebo": "off"})
        session.first_step()
        settings = iter(["on", "off"] * repeats)
        return repeated(lambda: session.slot(1, drop=1, config={"placebo": next(settings)}), repeats)


def repeated(action: Callable[[], Any], repeats: int) -> list[float]:
    """Wall seconds of each of ``repeats`` calls."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return times


def quiet(*arguments: str) -> None:
    """Run this Python with arguments and drop what it prints."""
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def imported(*arguments: str) -> list[str]:
    """Which heavy packages a command imports."""
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "advisor", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in ran.stderr.splitlines()}
    return sorted(names & {"torch", "optuna", "scipy", "sqlalchemy", "pydantic"})


if __name__ == "__main__":
    main()
