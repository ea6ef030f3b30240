"""Recorded GPU traces: what ``advisor profile`` reads from them beside what TraceLens does.

    python -m benchmarks.gpu_traces FOLDER > benchmarks/results/gpu_traces.md

``FOLDER`` holds traces and ``expected.json`` as ``tests/profiles/traces/gpu`` does.
Times are of the whole trace.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from advisor.result.document import ProfileData
from advisor.runs.profile_traces import profile_traces

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

- Their `other` holds attention (`aten::_flash_attention_forward`), copies, and what neither knows.
- `perf_model_normalization`: their report leaves out 27 us of memsets; that of `h100_Falconsai` counts them.
- vLLM: kernels of graphs are in none of their kinds, whose sum is 12 of 156 ms; sizes of products in a graph
  stand in the trace of its capture alone, so one product is left here. Their `elementwise` are copies.
- SGLang: products under `aiter::gemm_a16w16` are in none of their kinds (0.4 ms), though in their list
  (420 ms); `silu_and_mul`, copies of tensors and argmax are missing as well."""


def main() -> None:
    """Print the tables."""
    folder = Path(sys.argv[1])
    expected = json.loads((folder / "expected.json").read_text())
    print(f"# GPU traces: ours and TraceLens'\n\nMade by `python -m benchmarks.gpu_traces`.\n\n{DIFFERENCES}")
    for name in sorted(expected):
        print(*_told(name, profile_traces([folder / name], ("profile",)), expected[name]), sep="\n")


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
    fired = [each for each in result.findings if each.state in ("opportunity", "diagnostic")]
    yield "".join(f"\n- {each.rule} ({each.severity}): {each.title}" for each in fired)


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
