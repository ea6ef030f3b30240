"""Whole runs of ``advisor tune`` on two nodes of a real Ray and of a real SLURM on this machine.

    make cluster-study STUDY="--cells loader/20/0.5"
    make cluster-study STUDY="--placebo 20 --engines slurm"
    make cluster-study STUDY="--two --cells loader/20/0.5 --engines ray"
    make cluster-study STUDY="--wide --cells loader/2/0.02 --engines slurm"

A node has one CPU, and so has the run alone (``here``), which is made for comparison. Cells are those of
``planted_cells.py``. ``--placebo`` tunes scripts of examples/ so often with a knob that does nothing, and
counts recommendations. ``--two`` starts two tuners on one cluster, a moment after each other: a node is for
one at a time. ``--wide`` gives the second node both CPUs, so that it is of another kind. Each run is written
at once, and those that the file of results has are not made again. Wants a machine that does nothing else,
root, and a network namespace, which the target of the Makefile makes.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from clusters import CPUS, a_cluster

from advisor.tuners.comparing.looks import MIN_INSTANCES
from benchmarks.conditions import conditions
from benchmarks.placebo import EXAMPLES, SCRIPTS
from benchmarks.planted_cells import chosen
from benchmarks.time_to_verdict import CONFIRMED, PROGRAM, measured

RESULTS = Path(__file__).parent / "results" / "cluster_study.json"
HERE = "here"
ENGINES = ("ray", "slurm")
APART_S = 5.0  # between the starts of two tuners
PLACEBO_BUDGET = "60s"


class Tuner:
    """A run of the command line that has begun, kept to the CPU of the first node."""

    def __init__(self, script: Path, engine: str, variables: Mapping[str, str], words: Sequence[str]) -> None:
        self.engine, self._began = engine, time.perf_counter()
        self._folder = Path(tempfile.mkdtemp())
        shutil.copy(script, self._folder)
        on = [] if engine == HERE else ["--on", engine]
        command = [
            "taskset", "-c", CPUS[0], sys.executable, "-m", "advisor", "tune", script.name,
            "--out", "report", "--storage", f"sqlite:///{self._folder}/studies.db", *on, *words,
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, cwd=self._folder, env=os.environ | variables, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip

    def row(self) -> dict[str, Any]:
        """What it found, once it has ended: seconds to the verdict and in all, and what ran on which node."""
        told_s, said = None, list[str]()
        assert self._process.stderr is not None
        for line in self._process.stderr:
            said.append(line.rstrip())
            if line.startswith(CONFIRMED):
                told_s = told_s or round(time.perf_counter() - self._began, 1)
        self._process.wait()
        row: dict[str, Any] = {"engine": self.engine, "seconds": round(time.perf_counter() - self._began, 1)}
        file = self._folder / "report" / "result.json"
        if not file.exists():
            return {**row, "failed": "\n".join(said[-5:])}
        result = json.loads(file.read_text())
        shutil.rmtree(self._folder)
        advice = result["recommendation"]
        keys = ("node", "left_out", "measured", "busy_seconds", "waited_seconds")
        benches = [{key: each[key] for key in keys} for each in result["benches"]]
        return {
            **row,
            "verdict_s": told_s,
            "verdict": advice["verdict"],
            "changes": {change["knob"]: change["to"] for change in advice["changes"]},
            "speedup": {key: round(advice["speedup"][key], 3) for key in ("estimate", "low", "high")},
            "instances": advice["speedup"]["instances"],
            "launches": result["target"]["launches"],
            "benches": benches,
            "told": [line for line in said if "bench on" in line],
        }


@contextlib.contextmanager
def standing(engine: str, *, wide: bool) -> Iterator[Mapping[str, str]]:
    """A cluster of that engine, and the variables of a tuner in it."""
    if engine == HERE:
        yield {}
        return
    with a_cluster(engine, wide=wide) as cluster:
        yield cluster.variables


def main() -> None:
    """Run what is not there yet, write and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", nargs="*", default=[], help="names, or patterns of cells")
    parser.add_argument("--placebo", type=int, default=0, help="runs with each engine")
    parser.add_argument("--two", action="store_true", help="two tuners at a time, too, on each of the cells")
    parser.add_argument("--wide", action="store_true", help="the second node has more CPUs")
    parser.add_argument("--engines", nargs="+", choices=(HERE, *ENGINES), default=(HERE, *ENGINES))
    parser.add_argument("--budget", default="5m", help="of a run on a cell")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.two and not options.cells:
        parser.error("--two needs --cells: what the two tuners tune")
    if options.wide and (options.two or options.placebo or HERE in options.engines):
        parser.error("--wide goes with --cells and --engines: a run beside a node of another kind")
    kept: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    rows: list[dict[str, Any]] = kept.get("rows", [])

    def keep(key: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        rows.append({**key, **row})
        print(rows[-1], flush=True)
        options.out.write_text(json.dumps({"conditions": conditions(), "rows": rows}, indent=1) + "\n")

    def missing(**key: Any) -> bool:
        return not any(key.items() <= row.items() for row in rows)

    for engine in options.engines:
        with standing(engine, wide=options.wide) as variables:
            for cell in chosen(options.cells) if options.cells else ():
                words = ["--budget", options.budget, "--", *cell.arguments(measured)]
                what = f"{cell.name}, a node of another kind" if options.wide else cell.name
                if missing(what=what, engine=engine):
                    keep({"what": what}, Tuner(PROGRAM, engine, variables, words).row())
                if options.two and engine != HERE and missing(what=f"two of {cell.name}", engine=engine):
                    first = Tuner(PROGRAM, engine, variables, words)
                    time.sleep(APART_S)
                    second = Tuner(PROGRAM, engine, variables, words)
                    for tuner in (first, second):
                        keep({"what": f"two of {cell.name}"}, tuner.row())
            for seed in range(options.placebo):
                script = SCRIPTS[seed % len(SCRIPTS)]
                words = ["--knob", "placebo", "--budget", PLACEBO_BUDGET, "--seed", str(seed)]
                if missing(what="placebo", engine=engine, seed=seed):
                    key = {"what": "placebo", "seed": seed, "script": script}
                    keep(key, Tuner(EXAMPLES / script, engine, variables, words).row())
    placebos = [row for row in rows if row["what"] == "placebo"]
    for engine in sorted({row["engine"] for row in placebos}):
        of = [row for row in placebos if row["engine"] == engine]
        false = sum(row.get("verdict") == "change" for row in of)
        confirmed = sum(row.get("instances", 0) >= MIN_INSTANCES for row in of)
        print(f"placebo, {engine}: {false} of {len(of)} recommended, {confirmed} reached a confirmation")


if __name__ == "__main__":
    main()
