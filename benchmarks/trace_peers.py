"""CPU time and memory of reading and analysing recorded traces: ours, HolisticTraceAnalysis, TraceLens.

    python3 -m venv /tmp/hta && /tmp/hta/bin/pip install HolisticTraceAnalysis
    python3 -m venv /tmp/tl && /tmp/tl/bin/pip install numpy pandas orjson openpyxl tqdm tabulate pyyaml
    git clone https://github.com/AMD-AGI/TraceLens /tmp/TraceLens
    python -m benchmarks.trace_peers FOLDER --hta-python /tmp/hta/bin/python \\
        --tracelens-python /tmp/tl/bin/python --tracelens /tmp/TraceLens \\
        --out benchmarks/results/trace_peers.json

Of ``FOLDER`` the largest traces are read. *read* is from the file to what analyses start from: columns, a
frame, a tree of calls. *all* goes on to what each is for: the profile with every rule; breakdowns, kernels,
idle time; the report in tables. Every figure comes from a process of its own; imports count in its peak
memory, not in its CPU seconds. The PyPI project called TraceLens is another one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.conditions import conditions
from benchmarks.trace_reading import HTA, HTA_REST, MEASURE, OURS

MOST = 3
TIMEOUT_S = 900


class Reader(NamedTuple):
    """An interpreter and what it runs: imports, reading, the rest."""

    python: str
    imports: str
    read: str
    rest: str
    source: Path | None = None


OURS_READ = "trace = read_trace(Path(path))"
OURS_ALL = "profile_traces([Path(path)], ('profile',))"
HTA_READ = "analysis = TraceAnalysis(trace_files={0: path}, trace_dir='', include_last_profiler_step=True)"
TRACELENS = """
import contextlib, io, tempfile
from TraceLens import TreePerfAnalyzer
from TraceLens.Reporting.generate_perf_report_pytorch import generate_perf_report_pytorch
"""
TRACELENS_READ = """
with contextlib.redirect_stdout(io.StringIO()):
    TreePerfAnalyzer.from_file(path)
"""
TRACELENS_ALL = """
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
    generate_perf_report_pytorch(path, output_csvs_dir=folder)
"""


def main() -> None:
    """Measure, print a table, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=MOST, help="traces, the largest first")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--hta-python", help="an interpreter with HolisticTraceAnalysis")
    parser.add_argument("--tracelens-python", help="an interpreter with what TraceLens needs")
    parser.add_argument("--tracelens", type=Path, help="folder of its source")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    paths = sorted(options.folder.glob("*.json*"), key=lambda path: -path.stat().st_size)
    traces = [path for path in paths if path.name != "expected.json"][: options.most]
    rows = [row for path in traces for row in measured(path, readers(options), options.repeats)]
    if options.out:
        summary = {"conditions": conditions(), "repeats": options.repeats, "rows": rows}
        options.out.write_text(json.dumps(summary, indent=1) + "\n")


def readers(options: argparse.Namespace) -> dict[str, Reader]:
    """Those that are at hand."""
    imports = f"{OURS}from advisor.runs.profile_traces import profile_traces\n"
    found = {"ours": Reader(sys.executable, imports, OURS_READ, OURS_ALL)}
    if options.hta_python:
        found["hta"] = Reader(options.hta_python, HTA, HTA_READ, HTA_READ + HTA_REST)
    if options.tracelens_python and options.tracelens:
        found["tracelens"] = Reader(
            options.tracelens_python, TRACELENS, TRACELENS_READ, TRACELENS_ALL, options.tracelens
        )
    return found


def measured(path: Path, readers: dict[str, Reader], repeats: int) -> Iterator[dict[str, Any]]:
    """One row for each reader and task on a trace, with how many times ours its median is."""
    ran: dict[tuple[str, str], list[dict[str, float]]] = {}
    failed: dict[tuple[str, str], str] = {}
    for _ in range(repeats):  # in turns: the machine may change from minute to minute
        for name, reader in readers.items():
            for task, work in (("read", reader.read), ("all", reader.rest)):
                try:
                    ran.setdefault((name, task), []).append(in_own_process(reader, work, path))
                except subprocess.CalledProcessError as error:
                    failed[name, task] = error.stderr.decode().strip().splitlines()[-1]
    for (name, task), reason in failed.items():
        del ran[name, task]
        row: dict[str, Any] = {"trace": path.name, "reader": name, "task": task, "failed": reason}
        print(row, flush=True)
        yield row
    ours = {task: cpu_s(ran["ours", task]) for task in ("read", "all")}
    for (name, task), runs in ran.items():
        row = {
            "trace": path.name,
            "reader": name,
            "task": task,
            "cpu_s": round(cpu_s(runs), 3),
            "low": round(min(run["cpu_s"] for run in runs), 3),
            "high": round(max(run["cpu_s"] for run in runs), 3),
            "peak_mb": round(max(run["peak_mb"] for run in runs)),
            "times_ours": round(cpu_s(runs) / ours[task], 1),
        }
        print(row, flush=True)
        yield row


def cpu_s(runs: list[dict[str, float]]) -> float:
    """Median of CPU seconds, of user and system together."""
    return statistics.median(run["cpu_s"] for run in runs)


def in_own_process(reader: Reader, work: str, path: Path) -> dict[str, float]:
    """CPU seconds of the work and the peak memory of the process that did it.

    Raises:
        subprocess.CalledProcessError: The reader failed on this trace.
    """
    program = MEASURE.format(imports=reader.imports, work=work)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if reader.source is not None:
        environment["PYTHONPATH"] = str(reader.source)
    ran = subprocess.run(
        [reader.python, "-c", program, str(path)],
        capture_output=True,
        check=True,
        env=environment,
        timeout=TIMEOUT_S,
    )
    last: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return last


if __name__ == "__main__":
    main()
