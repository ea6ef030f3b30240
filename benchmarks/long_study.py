"""A study of all trials that it may have, in minutes: does the tuner stay as small and as fast as it began?

    python benchmarks/long_study.py --out benchmarks/results/long_study.json

Its 2,000 trials go through the real command: search, Optuna, store, progress, logs, a supervisor and a
process for each trial that needs one. Two things are not real. What a trial answers is written down
(`warm_trials.py`), so it takes milliseconds; and the search does not end after a few proposals in a row that
change nothing, as it otherwise does long before. One of fifty trials fails.

For each quarter of the study: what a trial costs the tuner in CPU time, in statements and bytes for the
database, and what it adds to the tuner's memory. What Optuna's sampler proposes again is answered in memory;
a proposal that reaches the database is a trial. The result so far, which is kept again and again at a small
share of the time, is counted apart: how often depends on the clock. The sampler looks at 300 trials at most
(`tuners/learnt.py`), so memory grows until there are as many. At the end the sizes of database and report,
and how long `advisor report` takes.
"""

import argparse
import json
import logging
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa
from conditions import conditions

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "faults")]

from builders import a_rich_profile  # noqa: E402
from scripted_trial import CANDIDATES, EVERY  # noqa: E402
from warm_trials import WarmTrials  # noqa: E402

from advisor import cli, launching  # noqa: E402
from advisor.device_lock import FOLDER_VARIABLE  # noqa: E402
from advisor.keeping import Keeping  # noqa: E402
from advisor.profiles.machine import read_machine  # noqa: E402
from advisor.settings import MAX_TRIALS  # noqa: E402
from advisor.tuners import search  # noqa: E402
from advisor.tuners.launch import Launcher  # noqa: E402

TRIALS = MAX_TRIALS
FAILING = "50"  # one of so many
KNOBS = (
    "gc_freeze", "num_threads", "optimizer_implementation", "channels_last", "flush_denormal", "cpu_affinity",
    "num_workers=0,1,2,3", "prefetch_factor=2,3,4,5,6,8", "persistent_workers", "multiprocessing_context",
    "in_memory_cache",
)  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """What the tuner had used when a trial was acknowledged; seconds, bytes and counts since its start."""

    cpu_s: float
    wall_s: float
    rss_bytes: int
    statements: int
    database_bytes: int
    proposals: int
    results: int


@dataclass
class Watch:
    """Looks at this process after each trial."""

    samples: list[Sample] = field(default_factory=list)
    statements: int = 0
    bytes: int = 0
    proposals: int = 0
    results: int = 0

    def statement(self, *event: Any) -> None:
        """Count a statement of ours or of Optuna's, and what is sent with it."""
        text, parameters = event[2], event[3]
        self.statements += 1
        self.proposals += text.startswith("INSERT INTO trials ")
        if "advisor_results SET" in text:
            self.results += 1
            return
        rows = parameters if isinstance(parameters, list) else [parameters]
        values = (value for row in rows for value in (row.values() if isinstance(row, dict) else row))
        self.bytes += sum(len(value) for value in values if isinstance(value, (str, bytes)))

    def trial(self) -> None:
        """A trial was acknowledged."""
        rss = psutil.Process().memory_info().rss
        used = time.process_time(), time.monotonic(), rss
        self.samples.append(Sample(*used, self.statements, self.bytes, self.proposals, self.results))


def tune(folder: Path, trials: int) -> list[Sample]:
    """Run the study in a folder; a sample for each trial."""
    watch, facts = Watch(), folder / "facts.json"
    facts.write_text(json.dumps(asdict(a_rich_profile(read_machine()))))
    (folder / "train.py").write_text("import torch\n")
    _script(watch, facts)
    os.chdir(folder)
    locks = folder / "locks"  # whoever else measures on this machine does not matter here
    locks.mkdir()
    os.environ.update({CANDIDATES: "user_error", EVERY: FAILING, FOLDER_VARIABLE: str(locks)})
    named = [part for knob in KNOBS for part in ("--knob", knob)]
    options = ["--keep-batch", "--study", "s", "--budget", "12h", "--trials", str(trials), "--device", "cpu"]
    code = cli.main(["tune", "train.py", *options, *named])
    if code != 0:
        sys.exit(f"the study ended with exit code {code}")
    return watch.samples


def _script(watch: Watch, facts: Path) -> None:
    """Put written answers in place of measurements, and look at this process after each trial."""
    enter, record = Launcher.__enter__, Keeping.record

    def entered(self: Launcher) -> Launcher:
        enter(self)
        setattr(self, "_zygote", WarmTrials(facts))  # noqa: B010  it has the methods of one
        return self

    def recorded(self: Keeping, *arguments: Any, **told: Any) -> None:
        record(self, *arguments, **told)
        watch.trial()

    setattr(Launcher, "__enter__", entered)  # noqa: B010
    setattr(Keeping, "record", recorded)  # noqa: B010
    setattr(launching, "_isolate", lambda *_: False)  # noqa: B010  scripted trials write nothing
    setattr(search, "FRUITLESS", math.inf)  # noqa: B010
    sa.event.listen(sa.Engine, "before_cursor_execute", watch.statement)


def quarters(samples: Sequence[Sample]) -> list[dict[str, float]]:
    """What a trial cost, by quarter of the study."""
    found = []
    for number in range(4):
        part = samples[number * len(samples) // 4 : (number + 1) * len(samples) // 4]
        cpu = [1e3 * (after.cpu_s - before.cpu_s) for before, after in pairwise(part)]
        first, last, count = part[0], part[-1], len(part) - 1
        proposals = last.proposals - first.proposals
        found.append({
            "trials": len(part),
            "cpu_ms_per_trial": round(1e3 * (last.cpu_s - first.cpu_s) / count, 2),
            "median_cpu_ms": round(statistics.median(cpu), 2),
            "wall_ms_per_trial": round(1e3 * (last.wall_s - first.wall_s) / count, 2),
            "proposals_per_trial": round(proposals / count, 2),
            "statements_per_proposal": round((last.statements - first.statements) / proposals, 2),
            "database_kb_per_trial": round((last.database_bytes - first.database_bytes) / count / 1e3, 2),
            "results_kept": last.results - first.results,
            "rss_mb": round(statistics.median(sample.rss_bytes for sample in part) / 2**20, 1),
            "rss_kb_per_trial": round((last.rss_bytes - first.rss_bytes) / count / 1024, 2),
        })  # fmt: skip
    return found


def reported(folder: Path) -> dict[str, Any]:
    """Sizes of what the study left, and seconds of ``advisor report``."""
    command = [sys.executable, "-m", "advisor", "report", "s", "--out", "again"]
    began = time.monotonic()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - began
    database = (folder / ".advisor").glob("studies.db*")  # with what SQLite has yet to merge into it
    logs = [file for file in (folder / ".advisor" / "studies").rglob("*") if file.is_file()]
    return {
        "report_s": round(seconds, 2),
        "html_bytes": (folder / "again" / "report.html").stat().st_size,
        "markdown_bytes": (folder / "again" / "report.md").stat().st_size,
        "json_bytes": (folder / "again" / "result.json").stat().st_size,
        "database_bytes": sum(file.stat().st_size for file in database),
        "log_files": len(logs),
        "log_bytes": sum(file.stat().st_size for file in logs),
    }


def measure(folder: Path, trials: int) -> dict[str, Any]:
    """The study and its report."""
    began = time.monotonic()
    samples = tune(folder, trials)
    found = {"trials": len(samples), "minutes": round((time.monotonic() - began) / 60, 1)}
    return {**found, "quarters": quarters(samples), "end": reported(folder)}


def main() -> None:
    """Run, print and write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--out", type=Path, help="where the numbers are written as JSON")
    options.add_argument("--trials", type=int, default=TRIALS)
    given = options.parse_args()
    out = None if given.out is None else given.out.absolute()
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o700)
        found = measure(Path(folder), given.trials)
        os.chdir(ROOT)
    print(json.dumps(found, indent=1))
    if out is not None:
        out.write_text(json.dumps({"conditions": conditions(), **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
