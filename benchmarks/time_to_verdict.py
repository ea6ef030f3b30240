"""How many launches and seconds until a gain that is there is confirmed? Tunes scripts with a planted fault.

    python -m benchmarks.time_to_verdict
    python -m benchmarks.time_to_verdict --short
    python -m benchmarks.time_to_verdict --cells 'loader/*' slow_start
    python -m benchmarks.time_to_verdict --advisor ../old/.venv/bin/advisor --label before

The cells are those of ``planted_cells.py``, the program is ``planted_gain.py``, tuned by the command line as
a user would, with the whole space of settings. The verdict counts from the moment at which the user is told
that the planted change is confirmed, if what follows (a longer run, a profile) does not take that back, and
launches are those until then; a run may go on searching. A version that does not tell it counts from when the
confirmation stood in the study. The
quickest cell comes first; each run is written at once, and those that the file of results has are not made
again. ``--short`` takes six cells, each with a budget of twice the seconds that are asked: 20 minutes.
``--to-verdict`` interrupts a run that searches on half a minute after its verdict. Wants a machine that does
nothing else.
"""

import argparse
import json
import os
import re
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from advisor.tuners.knobs.malloc import TUNED
from benchmarks.conditions import conditions
from benchmarks.planted_cells import KINDS, SHORT, USUAL, Cell, chosen
from benchmarks.record_series import neighbour
from benchmarks.verdict_table import line, table

PROGRAM = Path(__file__).parent / "planted_gain.py"
RESULTS = Path(__file__).parent / "results" / "time_to_verdict.json"
BUDGET = "10m"  # advisor's own default
POLL_S = 0.2
MIN_GAIN = 1.02  # advisor's own default: a confirmation ends above it
CONFIRMED, TAKEN_BACK = "confirmed: ", "taken back: "  # how it is told
GIVEN_UP = 4.0  # times the budget, after which a run is ended
STANDS_S = 30.0  # from a verdict until it counts as one that stands, where a run is not to search on


def main() -> None:
    """Run what is not there yet, write and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cells = parser.add_mutually_exclusive_group()
    cells.add_argument("--cells", nargs="+", default=list(USUAL), help="names, or patterns of all cells")
    cells.add_argument("--short", action="store_true", help="six cells of the usual, with budgets to match")
    parser.add_argument("--advisor", type=Path, default=Path(sys.executable).with_name("advisor"))
    parser.add_argument("--label", default="after", help="of the version that --advisor is")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--budget", help=f"of each run; {BUDGET} if not said, with --short by the cell")
    parser.add_argument("--to-verdict", action="store_true", help="interrupt what searches on after it")
    parser.add_argument("--neighbour", action="store_true", help="keep one CPU busy meanwhile")
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="JSON, written after every run, with a table beside it"
    )
    options = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    for repeat in range(options.repeats):
        for cell in chosen(SHORT if options.short else options.cells):
            budget = options.budget or (f"{cell.short_budget_s:.0f}s" if options.short else BUDGET)
            key = {"label": options.label, "cell": cell.name, "repeat": repeat, "loaded": options.neighbour}
            key["budget"] = budget
            if any(key.items() <= row.items() for row in rows):
                continue
            with neighbour(options.neighbour):
                told = tuned(cell, cell.arguments(measured), options.advisor, budget, options.to_verdict)
            rows.append({**key, **told})
            print(line(rows[-1]), flush=True)
            write(options.out, rows)
    print(table(rows))


def measured(option: str, count: int) -> tuple[float, float]:
    """Seconds of so many tensors or pages in the program as it is, and with the planted change."""

    def costs(variables: Mapping[str, str]) -> dict[str, float]:
        command = [sys.executable, str(PROGRAM), "--calibrate", option, str(count)]
        environment = {**os.environ, **variables}
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
        told: dict[str, float] = json.loads(done.stdout)
        return told

    if option == "--pages":
        return costs({})["pages_s"], costs(TUNED)["pages_s"]
    told = costs({})
    return told["one_by_one_s"], told["fused_s"]


@dataclass
class Watch:
    """Watches a run from outside: when was which confirmation told, or in the study, after how many launches.

    Attributes:
        folder: Holds ``studies.db``, a folder for each launch beside it, and ``stderr.txt``.
        knobs: One of them must be part of the change that was confirmed.
    """

    folder: Path
    knobs: tuple[str, ...]
    verdict: dict[str, Any] | None = None
    _told: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def look(self, seconds: float) -> None:
        """Keep the first confirmation of a planted change that stands, ``seconds`` after the command."""
        self._listen(seconds)
        if any(map(self._is_planted, self._told)):
            standing = (entry for entry in self._told_and_kept() if self._is_planted(entry))
            self.verdict = next((found for _, found in standing), None)
        elif self.verdict is None:
            self._look_into_the_study(seconds)

    def stands_s(self, seconds: float) -> float:
        """For how long the verdict has stood, ``seconds`` after the command; 0 while there is none."""
        return 0.0 if self.verdict is None else seconds - float(self.verdict["seconds"])

    def _listen(self, seconds: float) -> None:
        """Note what is told of confirmations, each with when that was."""
        file = self.folder / "stderr.txt"
        lines = file.read_text(errors="replace").splitlines() if file.exists() else []
        told = [text for text in lines if text.startswith((CONFIRMED, TAKEN_BACK))]
        for text in told[len(self._told) :]:
            ratio = re.search(r", ([0-9.]+)x \(", text)
            found = {"seconds": round(seconds, 1), "launches": self.launches}
            self._told.append((text, {**found, "ratio": None if ratio is None else float(ratio[1])}))

    def _is_planted(self, entry: tuple[str, dict[str, Any]]) -> bool:
        return entry[0].startswith(CONFIRMED) and any(f"{knob}=" in entry[0] for knob in self.knobs)

    def _told_and_kept(self) -> list[tuple[str, dict[str, Any]]]:
        """Without those that were taken back: that is told next."""
        after = [*(text for text, _ in self._told[1:]), ""]
        pairs = zip(self._told, after, strict=True)
        return [entry for entry, follows in pairs if not follows.startswith(TAKEN_BACK)]

    def _look_into_the_study(self, seconds: float) -> None:
        launches = self.launches
        trials = self.trials()
        present = trials[0]["config"] if trials else {}
        for trial in trials:
            ratio = trial["against_baseline"]
            if trial["stage"] != "confirm" or trial["state"] != "complete" or ratio is None:
                continue
            if ratio["low"] > MIN_GAIN and any(trial["config"].get(k) != present.get(k) for k in self.knobs):
                self.verdict = {
                    "seconds": round(seconds, 1),
                    "launches": launches,
                    "ratio": ratio["estimate"],
                }
                return

    @property
    def launches(self) -> int:
        """Processes of the program that were started so far."""
        return sum(path.name.isdigit() for path in self.folder.glob("studies/*/*"))

    def trials(self) -> list[dict[str, Any]]:
        """Those that ended, as the study has them."""
        file = self.folder / "studies.db"
        if not file.exists():
            return []
        try:
            with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=5)) as connection:
                rows = connection.execute(
                    "select data from advisor_trials where finished order by number"
                ).fetchall()
        except sqlite3.OperationalError:  # its tables are being made
            return []
        return [json.loads(data) for (data,) in rows]


def tuned(
    cell: Cell, arguments: Sequence[str], advisor: Path, budget: str, to_verdict: bool = False
) -> dict[str, Any]:
    """One run of the command line, told as a row; ``to_verdict``: it does not search on for long."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / PROGRAM.name
        program.write_text(PROGRAM.read_text())
        report = folder / "report"
        command = [
            str(advisor.absolute()), "tune", program.name, "--budget", budget, "--out", str(report),
            "--storage", f"sqlite:///{folder}/studies.db", "--", *arguments,
        ]  # fmt: skip
        watch = Watch(folder, cell.kind.knobs)
        with (folder / "stderr.txt").open("w") as errors:
            began = time.perf_counter()
            process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=errors)
            while process.poll() is None:
                time.sleep(POLL_S)
                watch.look(time.perf_counter() - began)
                if to_verdict and watch.stands_s(time.perf_counter() - began) > STANDS_S:
                    process.send_signal(signal.SIGINT)
                    process.wait()
                if time.perf_counter() - began > GIVEN_UP * seconds_of(budget):
                    process.terminate()
                    process.wait()
        took = time.perf_counter() - began
        watch.look(took)
        row = {"arguments": list(arguments), "verdict_reached": watch.verdict, "seconds": round(took, 1)}
        row["to_verdict"] = to_verdict
        if not (report / "result.json").exists():
            return {**row, "failed": (folder / "stderr.txt").read_text()[-1000:], "launches": watch.launches}
        return {**row, **found(json.loads((report / "result.json").read_text()), watch.launches)}


def seconds_of(budget: str) -> float:
    """Of a duration as the command line takes it, such as ``90s`` or ``10m``."""
    return float(budget[:-1]) * {"s": 1, "m": 60, "h": 3600}[budget[-1]]


def found(result: Mapping[str, Any], launched: int) -> dict[str, Any]:
    """What a result says; an early version counted its launches nowhere else than in folders."""
    advice, baseline = result["recommendation"], result["baseline"]
    starts = [trial["startup_s"] for trial in result["trials"] if trial["startup_s"]]
    return {
        "launches": result["target"].get("launches") or launched,
        "startup_s": round(statistics.median(starts), 2) if starts else None,
        "step_ms": round(baseline["step_ms"]["estimate"], 2),
        "verdict": advice["verdict"],
        "reason": advice.get("reason"),
        "speedup": {end: round(advice["speedup"][end], 3) for end in ("estimate", "low", "high")},
        "changes": {change["knob"]: change["to"] for change in advice["changes"]},
        "trials": len(result["trials"]),
        "stopped_by": result["budget"]["stopped_by"],
    }


def write(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows with the machine, and the table beside them."""
    taken = conditions()
    document = {
        "conditions": taken,
        "kinds": {name: asdict(kind) for name, kind in KINDS.items()},
        "rows": rows,
    }
    file.write_text(json.dumps(document, indent=1) + "\n")
    machine = f"{taken['cpu']} ({taken['cpu_capability']}), {taken['cpus_allowed']} CPUs"
    versions = f"advisor {taken['advisor']}, torch {taken['torch']}, Python {taken['python']}"
    told = f"{machine}, {taken['memory_gib']} GiB; {versions}"
    text = f"# Launches and seconds to a confirmed verdict\n\n{told}; {taken['taken']}.\n\n{table(rows)}\n"
    file.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
