"""Recorded GPU traces: what ``advisor profile`` reads from them beside what TraceLens does.

    python3 -m venv /tmp/hta && /tmp/hta/bin/pip install HolisticTraceAnalysis
    python -m benchmarks.gpu_traces FOLDER --hta-python /tmp/hta/bin/python \\
        > benchmarks/results/gpu_traces.md

``FOLDER`` holds traces and ``expected.json`` as ``tests/profiles/traces/gpu`` does; traces of which that says
nothing are set beside HolisticTraceAnalysis. Times are of the whole trace.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from advisor.profiles.traces.calls import calls_of
from advisor.profiles.traces.reading import read_trace
from advisor.profiles.traces.timeline import Timeline
from advisor.result.document import ProfileData
from advisor.result.wording import percent
from advisor.runs.profile_traces import profile_traces
from benchmarks.gpu_traces_hta import beside_hta
from benchmarks.gpu_traces_read import READ

TIMES = {
    "computing": "computation_time", "exposed_communication": "exposed_comm_time",
    "exposed_copies": "exposed_memcpy_time", "idle": "idle_time", "total": "total_time",
}  # fmt: skip
KINDS = {
    "gemm": ("GEMM",), "convolution": ("CONV_fwd", "CONV_bwd"), "attention": ("InferenceAttention",),
    "normalization": ("NORM_fwd", "NORM_bwd", "RMSNorm"), "elementwise": ("elementwise", "RoPE_fwd"),
    "reduction": ("reduce",), "triton": ("triton",), "other": ("other",),
}  # fmt: skip


DIFFERENCES = """Where the two differ:

- Their `other` holds attention (`aten::_flash_attention_forward`), softmax, indexing, copies, and what
  they do not know.
- What was launched before the recording is in neither.
- `perf_model_normalization`: their report leaves out 27 us of memsets; that of `h100_Falconsai` counts them.
- vLLM: kernels of graphs are in none of their kinds, whose sum is 12 of 156 ms; sizes of products in a graph
  stand in the trace of its capture alone, so one product is left here. Their `elementwise` are copies.
- SGLang: products under `aiter::gemm_a16w16` are in none of their kinds (0.4 ms), though in their list
  (420 ms); `silu_and_mul`, copies of tensors and argmax are missing as well."""


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hta-python", help="an interpreter with HolisticTraceAnalysis")
    options = parser.parse_args()
    folder = options.folder
    expected = json.loads((folder / "expected.json").read_text())
    print(f"# GPU traces: ours and TraceLens'\n\nMade by `python -m benchmarks.gpu_traces`.\n\n{DIFFERENCES}")
    for name in sorted(expected):
        print(*_told(name, profile_traces([folder / name], ("profile",)), expected[name]), sep="\n")
    others = sorted(path for path in folder.glob("*.json.gz") if path.name not in expected)
    for path in others:
        if options.hta_python:
            print(*beside_hta(path, options.hta_python), sep="\n")
        result = profile_traces([path], ("profile",))
        print(*_limits(result), *_said(path.name, result), sep="\n")
    print(*_latencies(sorted(folder.glob("*.json.gz"))), *_spread(others), sep="\n")


def _told(name: str, result: ProfileData, theirs: dict[str, Any]) -> Iterator[str]:
    profile = result.profile
    steps = profile.recording.steps if profile.recording is not None else 1
    yield f"\n## {name}\n\n{profile.summary}; steps: {steps}\n"
    yield "| ms | ours | TraceLens |\n|---|---|---|"
    for part, their in TIMES.items():
        yield _row(part, profile.device_ms[part] * steps, theirs["gpu_timeline_ms"][their])
    busy = profile.device_ms["total"] - profile.device_ms["idle"]
    yield _row("busy", busy * steps, theirs["gpu_timeline_ms"]["busy_time"])
    for cause, ms in profile.idle_ms.items():
        if ms * steps >= 1e-4:
            yield f"| idle: {cause} | {ms * steps:.4f} | |"
    for kind, ms in profile.kernels_ms.items():
        found = sum(theirs["kernel_ms_by_category"].get(each, 0.0) for each in KINDS.get(kind, ()))
        if ms * steps >= 1e-4 or found:
            yield _row(f"kernels: {kind}", ms * steps, found)
    yield from _products(result, theirs.get("matmuls", []))
    yield from _limits(result)
    yield from _said(name, result)


def _limits(result: ProfileData) -> Iterator[str]:
    """What is reached of the device's limits."""
    profile = result.profile
    mfu = "not known" if profile.mfu is None else percent(profile.mfu)
    kinds = ", ".join(f"{kind} {percent(share)}" for kind, share in profile.roofline_by_kind.items())
    yield f"\nBy the {profile.rates_from}: MFU {mfu}; of the nearer limit reach {kinds}."
    for each in profile.collectives:
        size = "of unknown size" if each.bytes is None else f"of {each.bytes} bytes"
        overlapped = percent(each.overlapped)
        yield f"\nExchange: {each.kind} {size}, {each.ms:.2f} ms a step, {overlapped} overlapped."


def _said(name: str, result: ProfileData) -> Iterator[str]:
    """What an engineer reads from the trace in a viewer, and the findings beside it."""
    fired = [each for each in result.findings if each.state in ("opportunity", "diagnostic")]
    yield f"\n| in a viewer | said |\n|---|---|\n| {READ[name]} | {result.profile.summary} |"
    for each in fired:
        yield f"| | {each.rule} ({each.severity}): {each.title} |"


def _latencies(paths: list[Path]) -> Iterator[str]:
    """From the end of a launch to its kernel, where the device stood still: what LATENCY_US allows for."""
    yield "\n## Latency of a launch to an idle device\n"
    yield "| us | launches | median | 99 % |\n|---|---|---|---|"
    for path in paths:
        calls = calls_of(read_trace(path))
        timeline = None if calls is None else Timeline.of(calls)
        if calls is None or timeline is None:
            continue
        gaps = timeline.active.gaps()
        following = np.minimum(np.searchsorted(timeline.begin, gaps.end), len(timeline.begin) - 1)
        launch = timeline.launch[following]
        launched = calls.end_us[launch]
        waited = (gaps.end - launched)[(launch >= 0) & (launched > gaps.begin)]
        if len(waited):
            middle, most = np.percentile(waited, (50, 99)).tolist()
            yield f"| {path.name} | {len(waited)} | {middle:.1f} | {most:.1f} |"


def _spread(paths: list[Path]) -> Iterator[str]:
    """How far single steps lie from their mean: what ONE_STEP allows for."""
    for path in paths:
        calls = calls_of(read_trace(path))
        if calls is not None and calls.steps.exact and calls.steps.count > 1:
            lengths = calls.steps.end_us - calls.steps.begin_us
            furthest = float(np.abs(lengths / lengths.mean() - 1).max())
            told = f"of {calls.steps.count} steps the furthest lies {percent(furthest)} from the mean"
            yield f"\n{path.name}: {told}."


def _products(result: ProfileData, theirs: list[dict[str, Any]]) -> Iterator[str]:
    rates = {(each["op"], each["M"], each["N"], each["K"]): each["tflops_mean"] for each in theirs}
    if result.profile.products:
        yield "\n| product | calls | us | TFLOP/s | TraceLens |\n|---|---|---|---|---|"
    for each in result.profile.products:
        rate = rates.get((each.op, each.m, each.n, each.k), "")
        sizes = f"{each.batch} x {each.m} x {each.n} x {each.k}"
        yield f"| {each.op} {sizes} | {each.calls:g} | {each.kernel_us:.1f} | {each.tflops:.2f} | {rate} |"


def _row(name: str, ours: float, theirs: float) -> str:
    return f"| {name} | {ours:.4f} | {theirs:.4f} |"


if __name__ == "__main__":
    main()
