"""How many launches and seconds until a gain that is there is confirmed? Tunes scripts with a planted fault.

    python -m benchmarks.time_to_verdict                      # a start of 2, 20 and 60 s, steps of 20 ms to 2 s
    python -m benchmarks.time_to_verdict --cells 'loader/*' slow_start
    python -m benchmarks.time_to_verdict --advisor ../old/.venv/bin/advisor --label before

A cell is ``KIND/START/STEP``: what brings the gain, seconds to the first step, seconds of a step. The program is
``benchmarks/planted_gain.py``, tuned by the command line as a user would, with the whole space of settings. The
verdict counts from the moment at which a confirmation of the planted change stood in the study, and launches are
those until then; a run may go on searching. Runs that the file of results has are not made again. Wants a machine
that does nothing else.
"""

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from advisor.tuners.knobs.malloc import TUNED
from benchmarks.conditions import conditions
from benchmarks.record_series import neighbour

PROGRAM = Path(__file__).parent / "planted_gain.py"
RESULTS = Path(__file__).parent / "results" / "time_to_verdict.json"
STARTS_S = (2, 20, 60)
STEPS_S = (0.02, 0.5, 2)
SLOW_START = "slow_start"
POLL_S = 0.2
MIN_GAIN = 1.02  # advisor's own default: a confirmation ends above it
GIVEN_UP = 4.0  # times the budget, after which a run is ended


@dataclass(frozen=True)
class Kind:
    """What brings the gain: settings of which one is enough, and the goals of a run that looks for it."""

    gain: float
    knobs: tuple[str, ...]
    launches: int
    in_time: bool = True  # whether seconds have a goal as well


KINDS = {
    "loader": Kind(4.0, ("num_workers", "in_memory_cache"), 5),
    "live": Kind(1.5, ("detect_anomaly",), 5),
    "small": Kind(1.1, ("detect_anomaly",), 10),
    "restart": Kind(1.3, ("malloc",), 8, in_time=False),
}
STARTUPS, STEPS = 5, 100  # of which a verdict may take the time
FIELD = Kind(7.0, ("num_workers",), 5)  # items of 15 ms behind a start of 18 s
FIELD_SECONDS, FIELD_WORKERS = 300.0, 4
USUAL = (
    "loader/2/0.02", "loader/20/0.5", "loader/60/2", "live/2/0.02", "live/20/0.5", "live/60/2", "restart/2/0.02",
    "restart/20/0.5", "restart/60/0.5", "small/2/0.02", "small/20/0.5", SLOW_START,
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One program that is tuned."""

    name: str

    @property
    def kind(self) -> Kind:
        """What brings its gain."""
        return FIELD if self.name == SLOW_START else KINDS[self.name.split("/")[0]]

    def arguments(self, costs: Mapping[str, float]) -> list[str]:
        """Of the program.

        Args:
            costs: Seconds of an operation, of a watched one, of a page and of a kept page.
        """
        if self.name == SLOW_START:
            return ["--start", "18", "--wait", "0.48", "--batch-size", "32", "--steps", "625"]
        name, start, step = self.name.split("/")
        step_s, gain = float(step), self.kind.gain
        start_and_think = ["--start", start, "--think"]
        if name == "loader":
            return [*start_and_think, f"{step_s / gain:.4f}", "--wait", f"{step_s * (1 - 1 / gain):.4f}"]
        slow, fast, option = "page_s", "kept_page_s", "--pages"
        if name in ("live", "small"):
            slow, fast, option = "watched_operation_s", "operation_s", "--operations"
        count, think_s = portions(costs[slow], costs[fast], gain, step_s)
        return [*start_and_think, f"{think_s:.4f}", option, str(count)]


def portions(slow_s: float, fast_s: float, gain: float, step_s: float) -> tuple[int, float]:
    """How many slow things a step does, and for how many seconds it thinks, so that fast ones gain so much.

    From count x slow + think = gain x (count x fast + think), about ``step_s`` of which the left side is.

    Raises:
        ValueError: Fast things gain less by themselves.
    """
    if slow_s < gain * fast_s:
        raise ValueError(f"{slow_s:.2g} s against {fast_s:.2g} s gains less than {gain} here")
    count = max(1, round(step_s * (1 - 1 / gain) / (slow_s - fast_s)))
    return count, count * (slow_s - gain * fast_s) / (gain - 1)


def main() -> None:
    """Run what is not there yet, write and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", nargs="+", default=list(USUAL), help="names, or patterns of all cells")
    parser.add_argument("--advisor", type=Path, default=Path(sys.executable).with_name("advisor"))
    parser.add_argument("--label", default="after", help="of the version that --advisor is")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--neighbour", action="store_true", help="keep one CPU busy meanwhile")
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="JSON, written after every run, with a table beside it"
    )
    options = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    costs: dict[str, float] = {}
    for repeat in range(options.repeats):
        for cell in chosen(options.cells):
            key = {"label": options.label, "cell": cell.name, "repeat": repeat, "loaded": options.neighbour}
            if any(key.items() <= row.items() for row in rows):
                continue
            costs = costs or calibrated()
            with neighbour(options.neighbour):
                told = tuned(cell, cell.arguments(costs), options.advisor, options.budget)
            rows.append({**key, "budget": options.budget, **told})
            print(line(rows[-1]), flush=True)
            write(options.out, rows)
    print(table(rows))


def chosen(patterns: Sequence[str]) -> list[Cell]:
    """The cells that the patterns name, each once.

    Raises:
        SystemExit: A pattern names none.
    """
    every = [f"{kind}/{start:g}/{step:g}" for kind in KINDS for start in STARTS_S for step in STEPS_S]
    every.append(SLOW_START)
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in every):
            raise SystemExit(f"no cell is called {pattern}; there are {', '.join(every)}")
    return [Cell(name) for name in every if any(fnmatch(name, pattern) for pattern in patterns)]


def calibrated() -> dict[str, float]:
    """Seconds of what the program does, on this machine; pages also where freed memory is kept."""

    def of(variables: Mapping[str, str]) -> dict[str, float]:
        command = [sys.executable, str(PROGRAM), "--calibrate"]
        environment = {**os.environ, **variables}
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
        costs: dict[str, float] = json.loads(done.stdout)
        return costs

    return {**of({}), "kept_page_s": of(TUNED)["page_s"]}


@dataclass
class Watch:
    """Looks into the study of a run from outside: when was which confirmation there, after how many launches.

    Attributes:
        folder: Holds ``studies.db`` and, beside it, a folder for each launch.
        knobs: One of them must be part of the change that was confirmed.
    """

    folder: Path
    knobs: tuple[str, ...]
    verdict: dict[str, Any] | None = None

    def look(self, seconds: float) -> None:
        """Keep the first confirmation of a planted change; ``seconds`` have passed since the command."""
        if self.verdict is not None:
            return
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


def tuned(cell: Cell, arguments: Sequence[str], advisor: Path, budget: str) -> dict[str, Any]:
    """One run of the command line, told as a row."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / PROGRAM.name
        program.write_text(PROGRAM.read_text())
        report = folder / "report"
        command = [
            str(advisor.absolute()), "tune", program.name, "--budget", budget, "--out", str(report),
            "--storage", f"sqlite:///{folder}/studies.db", "--quiet", "--", *arguments,
        ]  # fmt: skip
        watch = Watch(folder, cell.kind.knobs)
        with (folder / "stderr.txt").open("w") as errors:
            began = time.perf_counter()
            process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=errors)
            while process.poll() is None:
                time.sleep(POLL_S)
                watch.look(time.perf_counter() - began)
                if time.perf_counter() - began > GIVEN_UP * seconds_of(budget):
                    process.terminate()
                    process.wait()
        took = time.perf_counter() - began
        watch.look(took)
        row = {"arguments": list(arguments), "verdict_reached": watch.verdict, "seconds": round(took, 1)}
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


@dataclass(frozen=True)
class Goals:
    """Whether one run, or the median of several, met what is asked of it; None where nothing is asked."""

    launches: bool
    seconds: bool | None
    gain: bool

    @property
    def met(self) -> bool:
        """All of them."""
        return self.launches and self.seconds is not False and self.gain


def goals(row: Mapping[str, Any]) -> Goals:
    """Judge one run."""
    cell, reached = Cell(row["cell"]), row["verdict_reached"]
    if reached is None or row.get("failed") or row["verdict"] != "change":
        return Goals(False, False if cell.kind.in_time else None, False)
    launches = reached["launches"] <= cell.kind.launches
    if cell.name == SLOW_START:
        workers = row["changes"].get("num_workers", 0)
        gained = row["speedup"]["estimate"] >= FIELD.gain and workers > FIELD_WORKERS
        return Goals(launches, row["seconds"] <= FIELD_SECONDS, gained)
    limit_s = STARTUPS * row["startup_s"] + STEPS * row["step_ms"] / 1e3
    return Goals(launches, reached["seconds"] <= limit_s if cell.kind.in_time else None, True)


def medians(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each version and kind: medians of launches and of the share of the time that was allowed."""
    lines = []
    for label in dict.fromkeys(row["label"] for row in rows):
        for name, kind in KINDS.items():
            own = [row for row in rows if row["label"] == label and row["cell"].split("/")[0] == name]
            reached = [row for row in own if row["verdict_reached"] and row.get("startup_s")]
            if not own:
                continue
            told = f"- {label}, {name}: {len(reached)} of {len(own)} confirmed"
            if reached and 2 * len(reached) > len(own):
                launches = median_of_all([row["verdict_reached"]["launches"] for row in reached], len(own))
                told += (
                    f"; {launches:g} launches (at most {kind.launches}: {_word(launches <= kind.launches)})"
                )
                if kind.in_time:
                    shares = [row["verdict_reached"]["seconds"] / limit_s(row) for row in reached]
                    share = median_of_all(shares, len(own))
                    told += f"; {share:.2f} of {STARTUPS} start-ups and {STEPS} steps ({_word(share <= 1)})"
            else:
                told += ": not met"
            lines.append(told)
    return lines


def median_of_all(reached: Sequence[float], count: int) -> float:
    """Median of ``count`` runs of which those that are missing never reached it."""
    return statistics.median([*reached, *[float("inf")] * (count - len(reached))])


def limit_s(row: Mapping[str, Any]) -> float:
    """Seconds within which a verdict is asked for, by the start and the step that were measured."""
    return float(STARTUPS * row["startup_s"] + STEPS * row["step_ms"] / 1e3)


def line(row: Mapping[str, Any]) -> str:
    """One run as a row of the table."""
    cells = [row["label"] + (", loaded" if row["loaded"] else ""), row["cell"]]
    reached = row["verdict_reached"]
    cells += [str(reached["launches"]), f"{reached['seconds']:.0f}"] if reached else ["-", "-"]
    cells += [str(row["launches"]), f"{row['seconds']:.0f}"]
    if row.get("failed"):
        return "| " + " | ".join([*cells, "-", "-", "failed", "", "not met"]) + " |"
    speedup = row["speedup"]
    cells += [f"{row['startup_s'] or 0:.1f}", f"{row['step_ms']:.0f}"]
    cells.append(
        f"{row['verdict']} {speedup['estimate']:.2f}x ({speedup['low']:.2f} to {speedup['high']:.2f})"
    )
    cells += [", ".join(f"{knob}={to}" for knob, to in row["changes"].items()), _word(goals(row).met)]
    return "| " + " | ".join(cells) + " |"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """All runs, cell by cell, and what is met in the median."""
    heads = (
        "version", "cell", "launches to verdict", "seconds to verdict", "launches", "seconds", "start (s)",
        "step (ms)", "verdict", "changes", "goals",
    )  # fmt: skip
    ordered = sorted(
        rows, key=lambda row: (row["cell"], row["loaded"], row["label"] == "after", row["repeat"])
    )
    head = "| " + " | ".join(heads) + " |\n|" + "---|" * len(heads)
    return "\n".join([head, *map(line, ordered), "", *medians(rows)])


def write(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows with the machine, and the table beside them."""
    taken = conditions()
    document = {
        "conditions": taken,
        "kinds": {name: asdict(kind) for name, kind in KINDS.items()},
        "rows": rows,
    }
    file.write_text(json.dumps(document, indent=1) + "\n")
    told = f"{taken['cpu']}, {taken['cpus_allowed']} CPUs, torch {taken['torch']}, Python {taken['python']}"
    text = f"# Launches and seconds to a confirmed verdict\n\n{told}; {taken['taken']}.\n\n{table(rows)}\n"
    file.with_suffix(".md").write_text(text)


def _word(met: bool) -> str:
    return "met" if met else "not met"


if __name__ == "__main__":
    main()
