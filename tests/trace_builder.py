"""Traces for tests: laid out by hand event by event, or recorded here from a few real steps."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.profiles.traces.decoding import LINKS
from advisor.profiles.traces.reading import read_trace
from advisor.profiles.traces.trace import CATEGORIES, Trace

HOST, DEVICE = ("1", "1"), ("0", "7")


@dataclass(frozen=True)
class Event:
    """One row of a trace; times in microseconds."""

    category: str
    name: str
    begin: float
    duration: float
    thread: tuple[str, str] = HOST
    correlation: int = 0
    external: int = 0
    detail: dict[str, Any] = field(default_factory=dict)


def near(value: float) -> Any:
    """A float that is compared with tolerance, also as a part of a larger value."""
    return pytest.approx(value, abs=1e-9)


def an_operator(
    name: str, begin: float, duration: float, *shapes: list[int], sequence: int | None = None, **facts: Any
) -> Event:
    """An operator on float tensors of these shapes; with ``sequence`` it records a graph."""
    detail: dict[str, Any] = {"Input Dims": list(shapes), "Input type": ["float"] * len(shapes)}
    detail |= facts.pop("detail", {})
    if sequence is not None:
        detail |= {"Sequence number": sequence, "Fwd thread id": 0}
    return Event("cpu_op", name, begin, duration, detail=detail, **facts)


def a_node(name: str, begin: float, duration: float, sequence: int, **facts: Any) -> Event:
    """The evaluation of a node of the autograd graph."""
    detail = {"Sequence number": sequence, "Fwd thread id": 1}
    return Event(
        "cpu_op", f"autograd::engine::evaluate_function: {name}", begin, duration, detail=detail, **facts
    )


def an_annotation(name: str, begin: float, duration: float, **facts: Any) -> Event:
    """A range that ``record_function`` makes."""
    return Event("user_annotation", name, begin, duration, **facts)


def a_function(name: str, begin: float, duration: float, **facts: Any) -> Event:
    """A Python function, as ``with_stack=True`` records it."""
    return Event("python_function", name, begin, duration, **facts)


def a_step(number: int, begin: float, duration: float) -> Event:
    """The range of a step."""
    return an_annotation(f"ProfilerStep#{number}", begin, duration)


def a_call(name: str, begin: float, duration: float, correlation: int = 0, **facts: Any) -> Event:
    """A call of the device's runtime."""
    return Event("cuda_runtime", name, begin, duration, correlation=correlation, **facts)


def a_kernel(name: str, begin: float, duration: float, correlation: int = 0, **facts: Any) -> Event:
    """Work of the device."""
    return Event("kernel", name, begin, duration, facts.pop("thread", DEVICE), correlation, **facts)


def a_launch(
    name: str, at: float, begin: float, duration: float, correlation: int, call_us: float = 5.0
) -> tuple[Event, Event]:
    """A kernel that the host launches ``at`` a time and the device begins at another."""
    return a_call("cudaLaunchKernel", at, call_us, correlation), a_kernel(name, begin, duration, correlation)


def a_copy(
    name: str, at: float, begin: float, duration: float, correlation: int, size: int
) -> tuple[Event, Event]:
    """A copy, such as ``Memcpy HtoD (Pageable -> Device)``, and the call that starts it."""
    category = "gpu_memset" if name.startswith("Memset") else "gpu_memcpy"
    call = a_call("cudaMemcpyAsync", at, 2.0, correlation)
    return call, Event(category, name, begin, duration, DEVICE, correlation, detail={"bytes": size})


def a_trace(*events: Event, rank: int | None = None) -> Trace:
    """These events as columns."""
    ordered = sorted(events, key=lambda event: (event.begin, -event.duration))
    names = list(dict.fromkeys(event.name for event in ordered))
    threads = list(dict.fromkeys(event.thread for event in ordered))
    sequence = [event.detail.get("Sequence number", -1) for event in ordered]
    recording = [event.detail.get("Fwd thread id", 0) == 0 for event in ordered]
    kept = [{key: event.detail[key] for key in event.detail if key not in LINKS} for event in ordered]
    details = [each for each in kept if each]
    with_detail = [bool(each) for each in kept]
    return Trace(
        names=names,
        name=np.array([names.index(event.name) for event in ordered], dtype=np.int32),
        category=np.array([CATEGORIES.index(event.category) for event in ordered], dtype=np.uint8),
        begin_us=np.array([event.begin for event in ordered], dtype=np.float64),
        duration_us=np.array([event.duration for event in ordered], dtype=np.float64),
        threads=threads,
        thread=np.array([threads.index(event.thread) for event in ordered], dtype=np.int32),
        correlation=np.array([event.correlation for event in ordered], dtype=np.int64),
        external=np.array([event.external for event in ordered], dtype=np.int64),
        sequence=np.array(sequence, dtype=np.int64),
        recording=np.array(recording, dtype=np.bool_),
        detail=np.where(with_detail, np.cumsum(with_detail) - 1, -1).astype(np.int32),
        details=details,
        rank=rank,
    )


def a_recording(
    folder: Path, step: Callable[[], object], steps: int = 3, *, stacks: bool = False, shapes: bool = True
) -> Trace:
    """What torch.profiler records of some steps on the CPU, after two unrecorded ones."""
    import torch

    step()
    step()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=shapes, with_stack=stacks) as profiler:
        for number in range(steps):
            with torch.profiler.record_function(f"advisor_step#{number}"):
                step()
    path = folder / "trace.json"
    profiler.export_chrome_trace(str(path))
    return read_trace(path)
