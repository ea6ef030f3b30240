"""Trace files as torch.profiler and other programs leave them, and a plain reader to compare with."""

import json
import threading
from pathlib import Path
from typing import Any

import torch

from advisor.profiles.traces.decoding import DETAILS
from advisor.profiles.traces.trace import CATEGORIES, Trace

OP: dict[str, Any] = {
    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 10.5, "dur": 2.25,
    "args": {"External id": 7, "Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]},
}  # fmt: skip

Row = tuple[float, float, str, str, tuple[str, str], int, int, int, bool, str]


def rows_of(trace: Trace) -> list[Row]:
    """Each event of a trace as plain values."""
    return [
        (
            float(trace.begin_us[i]),
            -float(trace.duration_us[i]),
            trace.names[trace.name[i]],
            CATEGORIES[trace.category[i]],
            trace.threads[trace.thread[i]],
            int(trace.correlation[i]),
            int(trace.external[i]),
            int(trace.sequence[i]),
            bool(trace.recording[i]),
            json.dumps(trace.details[trace.detail[i]] if trace.detail[i] >= 0 else {}, sort_keys=True),
        )
        for i in range(len(trace))
    ]


def rows_by_json(content: bytes) -> list[Row]:
    """The same from the standard library's reader."""
    found = json.loads(content)
    return sorted(row_by_json(each) for each in found["traceEvents"] if each.get("ph") == "X")


def row_by_json(event: dict[str, Any]) -> Row:
    told = event["cat"] != "python_function"  # whose arguments are numbers of its own kind, and not read
    arguments = (event.get("args") if told else None) or {}
    return (
        float(event["ts"]),
        -float(event["dur"]),
        event["name"],
        event["cat"] if event["cat"] in CATEGORIES else "other",
        (str(event["pid"]), str(event["tid"])),
        arguments.get("correlation", 0),
        arguments.get("External id", 0),
        arguments.get("Sequence number", -1),
        arguments.get("Fwd thread id", 0) == 0,
        json.dumps({key: arguments[key] for key in DETAILS if key in arguments}, sort_keys=True),
    )


def a_file(folder: Path, content: bytes | str | list[Any] | dict[str, Any]) -> Path:
    path = folder / "trace.json"
    if isinstance(content, list):
        content = {"traceEvents": content}
    if isinstance(content, dict):
        content = json.dumps(content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def record(path: Path, **flags: Any) -> bytes:
    """A real trace of a small model that is trained on two threads."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **flags) as profiler:
        step()
        thread = threading.Thread(target=step)
        thread.start()
        thread.join()
    profiler.export_chrome_trace(str(path))
    return path.read_bytes()
