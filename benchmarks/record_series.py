"""Records the steps of identical processes, which replays of advisor's decisions are then cut from.

    python -m benchmarks.record_series --processes 24 --seconds 8
    python -m benchmarks.record_series --processes 24 --seconds 8 --neighbour

Every process runs the same program unchanged. It is started, warmed up and measured slot by slot as a trial
is: a step after a pause is not kept, and neither are steps in which an epoch starts. CPU time and other
load are counted per slot, as a trial counts them. ``--neighbour`` keeps one CPU busy meanwhile. Programs use
one thread: two collapse beside a busy neighbour (measurement.md, section 1).
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.cli.target import find_target
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.measure import median
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.trial.messages import Slot
from advisor.tuners.trial.spec import Target
from benchmarks.conditions import conditions

EXAMPLES = Path(__file__).parents[1] / "examples"
WORKLOADS = Path(__file__).parent / "workloads"
SERIES = Path(__file__).parent / "results" / "series"
LONG = "100000000"  # steps or epochs: no process comes to its end
ARGUMENTS = {
    "tiny_gpt.py": ("--steps", LONG),
    "gan.py": ("--epochs", LONG),
    "mlp_nothing_to_gain.py": ("--steps", LONG),
    "slow_storage.py": ("--epochs", LONG),
}
RECORDED = [
    *(EXAMPLES / name for name in ARGUMENTS),
    *(WORKLOADS / f"{name}.py" for name in ("lenet", "gru_tagger", "dlrm", "log_lines")),
]
LEAST_STEPS = 60  # of one process, however long they take
LONGEST = 4.0  # times the seconds asked for
SLOT_LIMIT_S = 60.0
SPIN = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(100_000))
"""


@dataclass(frozen=True)
class Recorded:
    """One process: its slots in the order of time, the first ``warm`` of them from its warm-up."""

    startup_s: float
    warm: int
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class Series:
    """Processes of one program on one machine, recorded one after the other."""

    workload: str
    loaded: bool
    threads: int
    processes: tuple[Recorded, ...]

    @property
    def file(self) -> str:
        """Name of the file that holds it."""
        return f"{self.workload}{'-loaded' if self.loaded else ''}.json.gz"


def main() -> None:
    """Record and write every workload asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--workload", nargs="+", type=Path, default=RECORDED, metavar="SCRIPT")
    parser.add_argument("--processes", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each process, after its warm-up")
    parser.add_argument("--neighbour", action="store_true", help="another process keeps one CPU busy")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--out", type=Path, default=SERIES, metavar="FOLDER")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    for script in options.workload:
        with neighbour(options.neighbour):
            recorded = [record(script, options.seconds) for _ in range(options.processes)]
        series = Series(script.stem, options.neighbour, options.threads, tuple(recorded))
        path = write(series, options.out, conditions())
        steps = sum(len(slot.step_s) for process in recorded for slot in process.slots)
        print(f"{path}: {len(recorded)} processes, {steps} steps", flush=True)


def record(script: Path, seconds: float) -> Recorded:
    """Start one process, and measure slots of it until ``seconds`` have passed."""
    request = find_target(str(script.resolve()), None, ARGUMENTS.get(script.name, ()))
    target = Target(request.kind, request.name, request.args, str(script.resolve().parent))
    with tempfile.TemporaryDirectory() as folder, Launcher(target, Path(folder)) as launcher:
        arena = Arena(launcher, KNOBS, {})
        session = arena.start({}, 0)
        slots: list[Slot] = []
        try:
            startup_s = session.first_step()
            slots += arena.warm_up(session)
            warm, arena.step_s = len(slots), median(list(slots[-1].step_s))
            began, kept = time.monotonic(), 0
            while _goes_on(time.monotonic() - began, kept, seconds):
                slots.append(session.slot(arena.steps(), drop=1, limit_s=SLOT_LIMIT_S))
                kept += len(slots[-1].step_s)
        except SessionEnded:
            raise SystemExit(f"{script.name} came to its end after {len(slots)} slots") from None
        finally:
            session.kill()
    return Recorded(startup_s, warm, tuple(slots))


def _goes_on(spent_s: float, steps: int, wanted_s: float) -> bool:
    return spent_s < wanted_s or (steps < LEAST_STEPS and spent_s < LONGEST * wanted_s)


@contextmanager
def neighbour(wanted: bool) -> Iterator[None]:
    """Keep one CPU busy meanwhile; the process also ends when this one is killed."""
    if not wanted:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def write(series: Series, folder: Path, taken: Mapping[str, Any]) -> Path:
    """Write a series; times become whole nano- or microseconds.

    Args:
        series: What to write.
        folder: Made where it does not exist.
        taken: The conditions under which it was recorded.
    """
    data = {
        "workload": series.workload,
        "loaded": series.loaded,
        "threads": series.threads,
        "conditions": dict(taken),
        "processes": [
            {
                "startup_us": round(process.startup_s * 1e6),
                "warm": process.warm,
                "slots": [_packed(slot) for slot in process.slots],
            }
            for process in series.processes
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / series.file
    text = json.dumps(data, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


def series_in(folder: Path) -> list[Path]:
    """The recorded series, quiet ones first; ends the program where there are none."""
    paths = sorted(folder.glob("*.json.gz"), key=lambda path: ("-loaded" in path.name, path.name))
    if not paths:
        raise SystemExit(f"no series in {folder}: python -m benchmarks.record_series")
    return paths


def by_program(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Files of series by the program that was recorded, in the order of their names."""
    found = defaultdict[str, list[Path]](list)
    for path in paths:
        found[path.name.removesuffix(".json.gz").removesuffix("-loaded")].append(path)
    return {name: found[name] for name in sorted(found)}


def read(path: Path) -> Series:
    """Read a series that ``write`` wrote."""
    data = json.loads(gzip.decompress(path.read_bytes()))
    processes = tuple(
        Recorded(each["startup_us"] / 1e6, each["warm"], tuple(map(_unpacked, each["slots"])))
        for each in data["processes"]
    )
    return Series(data["workload"], data["loaded"], data["threads"], processes)


def _packed(slot: Slot) -> dict[str, Any]:
    return {
        "wall_ns": [round(value * 1e9) for value in slot.step_s],
        "cpu_ns": round(slot.cpu_s * 1e9),
        "other_us": round(slot.other_cpu_s * 1e6),
        "throttled_us": round(slot.throttled_s * 1e6),
    }


def _unpacked(packed: Mapping[str, Any]) -> Slot:
    return Slot(
        step_s=tuple(value / 1e9 for value in packed["wall_ns"]),
        cpu_s=packed["cpu_ns"] / 1e9,
        other_cpu_s=packed["other_us"] / 1e6,
        throttled_s=packed["throttled_us"] / 1e6,
    )


if __name__ == "__main__":
    main()
