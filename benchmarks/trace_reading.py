"""CPU time and memory of reading and analysing traces, beside HolisticTraceAnalysis.

    python3 -m venv /tmp/hta && /tmp/hta/bin/pip install HolisticTraceAnalysis
    python -m benchmarks.trace_reading --hta-python /tmp/hta/bin/python \\
        --out benchmarks/results/trace_reading.json

The traces are generated: a training loop with Python frames, operators with shapes, launches, kernels,
copies, collectives and the flows between them, laid out as Kineto does. Every figure comes from a process of
its own; imports count in its peak memory, not in its CPU seconds. Without ``--hta-python`` only ours runs.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from benchmarks.conditions import conditions

SIZES = (0.1, 0.5, 2.0)
STEPS = 8
MODULES = 120

MEASURE = """
import json, os, resource, sys
path = sys.argv[1]
{imports}
def used():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
before = used()
{work}
cpu_s = used() - before
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({{"cpu_s": cpu_s, "peak_mb": peak / 1000}}))
"""
OURS = """
from pathlib import Path
from advisor.profiles.traces.reading import read_trace
from advisor.runs.profile_traces import profile_of
"""
OURS_PARSE = "trace = read_trace(Path(path))"
OURS_REST = """
profile_of([trace], trace)
"""
HTA = """
import logging
from hta.trace_analysis import TraceAnalysis
logging.disable(logging.CRITICAL)
"""
HTA_PARSE = "analysis = TraceAnalysis(trace_dir=os.path.dirname(path))"
HTA_REST = """
analysis.get_temporal_breakdown(visualize=False)
analysis.get_idle_time_breakdown(visualize=False)
analysis.get_gpu_kernel_breakdown(visualize=False)
analysis.get_cuda_kernel_launch_stats(visualize=False)
analysis.get_comm_comp_overlap(visualize=False)
"""

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, {}, std::array<char*, 3ul> >(int, {})"
OPERATORS = (
    ("aten::linear", "aten::addmm", "ampere_sgemm_128x64_tn"),
    ("aten::matmul", "aten::bmm", "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_128x128_32x5>"),
    ("aten::layer_norm", "aten::native_layer_norm", "void at::native::(anonymous namespace)::"
     "vectorized_layer_norm_kernel<float, float>(int, float, float const*, float const*, float*, float*)"),
    ("aten::gelu", "aten::gelu", ELEMENTWISE.format(*2 * ["at::native::GeluCUDAKernelImpl::{lambda()#2}"])),
    ("aten::add", "aten::add", ELEMENTWISE.format(*2 * ["at::native::CUDAFunctor_add<float>"])),
    ("aten::softmax", "aten::_softmax", "void (anonymous namespace)::softmax_warp_forward<float, float, 9>"),
    ("aten::dropout", "aten::native_dropout", "void at::native::(anonymous namespace)::fused_dropout_kernel"),
)  # fmt: skip
COLLECTIVE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85051572224, "numSms": 108}
  ],
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1790857026000000000,
  "traceEvents": [
"""


def main() -> None:
    """Generate, measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=float, nargs="+", default=SIZES, help="millions of events")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--hta-python", type=Path, help="Python of a venv with HolisticTraceAnalysis")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "trace.json"
            events = generate(path, int(size * 1e6))
            rows += list(measured(path, events, options))
    ratios = compared(rows)
    for row in ratios:
        print(row)
    if options.out:
        summary = {"conditions": conditions(), "repeats": options.repeats, "rows": rows, "compared": ratios}
        options.out.write_text(json.dumps(summary, indent=1) + "\n")


def measured(path: Path, events: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One row for each reader and task on this file."""
    readers = {"ours": (Path(sys.executable), OURS, OURS_PARSE, OURS_REST)}
    if options.hta_python:
        readers["hta"] = (options.hta_python, HTA, HTA_PARSE, HTA_REST)
    programs = {
        (reader, task): MEASURE.format(imports=imports, work=parse + rest if task == "full" else parse)
        for reader, (_, imports, parse, rest) in readers.items()
        for task in ("parse", "full")
    }
    ran: dict[tuple[str, str], list[dict[str, float]]] = {each: [] for each in programs}
    for _ in range(options.repeats):  # in turns: the machine may change from minute to minute
        for (reader, task), program in programs.items():
            ran[reader, task].append(in_own_process(readers[reader][0], program, path))
    for (reader, task), runs in ran.items():
        million = events / 1e6
        row = {
            "reader": reader,
            "task": task,
            "events": events,
            "file_mb": round(path.stat().st_size / 1e6),
            "cpu_s_per_million": round(statistics.median(run["cpu_s"] for run in runs) / million, 3),
            "low": round(min(run["cpu_s"] for run in runs) / million, 3),
            "high": round(max(run["cpu_s"] for run in runs) / million, 3),
            "peak_mb": round(max(run["peak_mb"] for run in runs)),
        }
        print(row, flush=True)
        yield row


def in_own_process(python: Path, program: str, path: Path) -> dict[str, float]:
    """CPU seconds of the work and the peak memory of the process that did it."""
    ran = subprocess.run(
        [str(python), "-c", program, str(path)],
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    last: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return last


def compared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How many times less CPU and memory ours needs, per task and size."""
    found = {(row["reader"], row["task"], row["events"]): row for row in rows}
    pairs = [(key, row, found.get(("hta", *key[1:]))) for key, row in found.items() if key[0] == "ours"]
    return [
        {
            "task": task,
            "events": events,
            "times_less_cpu": round(theirs["cpu_s_per_million"] / ours["cpu_s_per_million"], 1),
            "share_of_memory": round(ours["peak_mb"] / theirs["peak_mb"], 2),
        }
        for (_, task, events), ours, theirs in pairs
        if theirs
    ]


def generate(path: Path, events: int) -> int:
    """Write a trace with about this many events; return how many it has."""
    with path.open("w") as file:
        writer = Writer(file)
        file.write(HEAD)
        for step in range(STEPS):
            writer.step(step, events // STEPS)
        file.write('\n  ],\n  "traceName": "trace.json"\n}\n')
    return writer.written


class Writer:
    """Writes the events of a training loop on one host thread and two streams."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.random = random.Random(0)
        self.written = 0
        self.number = 1
        self.host = 4407234838738.0
        self.device = self.host
        self.shapes = [
            f'"Input type": ["float", "float", ""], "Input Dims": [[{b}, {w}], [{w}, {4 * w}], []],'
            f' "Concrete Inputs": ["", "", "1."], "Input Strides": [[{w}, 1], [1, {w}], []]'
            for b in (8, 512, 4096)
            for w in (64, 768, 1024, 3072)
        ]

    def step(self, number: int, events: int) -> None:
        """One step: a copy of the batch, layers, collectives now and then, a wait at the end."""
        began, stop = self.host, self.written + events
        self.copy("Memcpy HtoD (Pinned -> Device)", 1 << 20)
        while self.written < stop - 8:
            self.layer()
            if self.random.random() < 0.02:
                self.kernel(COLLECTIVE, 20, 400.0)
        self.event("cuda_runtime", "cudaDeviceSynchronize", self.host, 50.0, '"cbid": 165, "correlation": 0')
        self.host = max(self.host + 50.0, self.device)
        self.event("user_annotation", f"ProfilerStep#{number}", began, self.host - began, self.link())

    def layer(self) -> None:
        """A Python frame that calls an operator, which calls another, which launches a kernel."""
        module = self.random.randrange(MODULES)
        outer, inner, kernel = self.random.choice(OPERATORS)
        began = self.host
        self.host += 6.0
        shapes, link = self.random.choice(self.shapes), self.link()
        self.event("cpu_op", outer, began + 3, 30.0, f"{link}, {shapes}")
        self.event("cpu_op", inner, began + 6, 24.0, f"{self.link()}, {shapes}{self.sequence()}")
        self.kernel(kernel, 7, self.random.uniform(3, 60))
        name = f"/home/user/project/model/layers_{module % 7}.py({module}): forward_{module}"
        self.event(
            "python_function", name, began, 40.0, f'"Python id": {self.number}, "Ev Idx": {self.number}'
        )
        self.host = began + 42.0 + self.random.random()

    def kernel(self, name: str, stream: int, length: float) -> None:
        """A launch, its kernel and the flow between them."""
        collective = f', "Collective name": "allreduce", "In msg nelems": {1 << 20}' if stream == 20 else ""
        self.launched("cudaLaunchKernel", "kernel", name, stream, length, (
            f'"queued": 0, "registers per thread": 32, "shared memory": 16384, "blocks per SM": 4.740741, '
            f'"warps per SM": 37.925926, "grid": [512, 1, 1], "block": [256, 1, 1], '
            f'"est. achieved occupancy %": 59{collective}'
        ))  # fmt: skip

    def copy(self, name: str, size: int) -> None:
        """A copy to the device."""
        arguments = f'"bytes": {size}, "memory bandwidth (GB/s)": {self.random.uniform(5, 25)}'
        self.launched("cudaMemcpyAsync", "gpu_memcpy", name, 7, 50.0, arguments)

    def launched(
        self, call: str, category: str, name: str, stream: int, length: float, arguments: str
    ) -> None:
        """What runs on a stream, and the call that started it."""
        number = self.number
        self.event("cuda_runtime", call, self.host + 10, 5.0,
                   f'"External id": {number - 1}, "cbid": 211, "correlation": {number}')  # fmt: skip
        self.flow("s", number, 4242, 4242, self.host + 10)
        self.device = max(self.device, self.host + 16) + 1.5
        links = f'"External id": {number - 1}, "device": 0, "context": 1, "stream": {stream}'
        links += f', "correlation": {number}'
        self.event(category, name, self.device, length, f"{links}, {arguments}", pid=0, tid=stream)
        self.flow("f", number, 0, stream, self.device)
        self.device += length
        self.number += 1

    def link(self) -> str:
        """The numbers that every operator has."""
        self.number += 1
        return f'"External id": {self.number},"Record function id": 0, "Ev Idx": {self.number}'

    def sequence(self) -> str:
        """The numbers that join forward and backward, which one operator in some has."""
        return f', "Sequence number": {self.number}, "Fwd thread id": 0' if self.random.random() < 0.3 else ""

    def event(
        self,
        category: str,
        name: str,
        began: float,
        length: float,
        arguments: str,
        pid: int = 4242,
        tid: int = 4242,
    ) -> None:
        """A complete event, laid out as Kineto does."""
        self._next(
            f'  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", "pid": {pid}, "tid": {tid},\n'
            f'    "ts": {began:.3f}, "dur": {length:.3f},\n    "args": {{\n      {arguments}\n    }}\n  }}'
        )

    def flow(self, kind: str, number: int, pid: int, tid: int, moment: float) -> None:
        """An end of an arrow from a launch to its kernel."""
        head = ', "bp": "e"' if kind == "f" else ""
        self._next(
            f'  {{\n    "ph": "{kind}", "id": {number}, "pid": {pid}, "tid": {tid}, "ts": {moment:.3f},\n'
            f'    "cat": "ac2g", "name": "ac2g"{head}\n  }}'
        )

    def _next(self, text: str) -> None:
        self.file.write(",\n" + text if self.written else text)
        self.written += 1


if __name__ == "__main__":
    main()
