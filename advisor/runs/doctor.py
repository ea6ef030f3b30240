"""What of this machine and environment will limit training, found out without a training program."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from advisor.profiles.facts.machine import Machine
from advisor.result.wording import mib

OLDEST_TORCH = (2, 11)  # what is tested
LOAD = 0.15  # of one CPU, from which other processes disturb comparisons
LOAD_S = 1.0  # for looking at it
SMALL_SHM = 2**30  # bytes; batches of several loader workers pass through it
LITTLE_DISK = 2 * 2**30  # bytes, for logs, compiled code and studies
TORCH_S = 60.0  # for importing torch

PROBE = """
import json, torch
facts = {"version": torch.__version__, "cuda_build": torch.version.cuda, "cuda": torch.cuda.is_available(),
         "threads": torch.get_num_threads(), "capability": torch.backends.cpu.get_cpu_capability(),
         "mkldnn": torch.backends.mkldnn.is_available()}
print(json.dumps(facts))
"""


@dataclass(frozen=True)
class Check:
    """One thing looked at: what was seen, and what to do where it limits something."""

    name: str
    state: Literal["ok", "note", "limit", "broken"]
    seen: str
    advice: str = ""


def examine(machine: Machine) -> list[Check]:
    """All checks, in the order in which they are read. Imports torch in a process of its own."""
    torch = _probe_torch()
    return [
        *_interpreter(torch),
        *_cpus(machine, torch),
        *_memory(machine),
        *_devices(machine, torch),
        *_tools(machine),
        *_folders(),
        *_environment(),
    ]


def completion_line() -> str | None:
    """The line that switches completion on in the shell that is used now."""
    shell = Path(os.environ.get("SHELL", "")).name
    if shell in ("bash", "zsh"):
        return f'eval "$(_ADVISOR_COMPLETE={shell}_source advisor)"'
    return "_ADVISOR_COMPLETE=fish_source advisor | source" if shell == "fish" else None


def _probe_torch() -> dict[str, Any]:
    """What torch says of itself; ``error`` where it cannot be imported."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", PROBE], capture_output=True, text=True, timeout=TORCH_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"importing torch takes longer than {TORCH_S:.0f} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]}
    try:
        facts: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return {"error": "it is imported, but what it says of itself cannot be read"}
    return facts


def _interpreter(torch: dict[str, Any]) -> Iterator[Check]:
    yield Check("Python", "ok", f"{sys.version.split()[0]} at {sys.executable}")
    if "error" in torch:
        install = f"{shlex.quote(sys.executable)} -m pip install torch"
        yield Check(
            "torch", "broken", torch["error"], f"install torch-advisor beside your torch, or `{install}`"
        )
        return
    numbers = tuple(map(int, re.findall(r"\d+", torch["version"])[:2]))
    if numbers < OLDEST_TORCH:
        wanted = ".".join(map(str, OLDEST_TORCH))
        yield Check(
            "torch", "limit", torch["version"], f"torch {wanted} or newer is what advisor is tested with"
        )
    else:
        yield Check("torch", "ok", torch["version"])


def _cpus(machine: Machine, torch: dict[str, Any]) -> Iterator[Check]:
    import psutil

    online = machine.cpus_online or machine.cpus_allowed
    if machine.cpus_allowed < online:
        yield Check(
            "CPUs",
            "limit",
            f"{machine.cpus_allowed} of {online} allowed",
            "affinity (`taskset -p $$`) or the container's CPU quota leaves the others out",
        )
    else:
        yield Check("CPUs", "ok", f"{machine.cpus_allowed}, {machine.physical_cores} cores")
    threads = torch.get("threads")
    if threads is not None and threads > machine.cpus_allowed:
        yield Check(
            "threads of torch",
            "limit",
            f"{threads} for {machine.cpus_allowed} CPUs",
            f"`export OMP_NUM_THREADS={machine.cpus_allowed}`: more threads than CPUs wait for each other",
        )
    shares = psutil.cpu_percent(interval=LOAD_S, percpu=True)
    ours = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(shares))
    used = sum(share for cpu, share in enumerate(shares) if cpu in ours) / 100
    if used > LOAD:
        yield Check(
            "other load",
            "limit",
            f"{used:.2g} CPUs are busy now",
            "measurements are disturbed; `ps -eo pid,pcpu,args --sort=-pcpu | head` shows by whom",
        )
    else:
        yield Check("other load", "ok", f"{used:.2g} CPUs busy")
    if machine.governor not in (None, "performance"):
        yield Check(
            "frequency governor",
            "note",
            str(machine.governor),
            "times vary with the clock: `sudo cpupower frequency-set -g performance`",
        )
    if (machine.numa_nodes or 1) > 1:
        yield Check(
            "memory nodes",
            "note",
            f"{machine.numa_nodes} NUMA nodes",
            "bind one process to one node: `numactl --cpunodebind=0 --membind=0 ...`",
        )


def _memory(machine: Machine) -> Iterator[Check]:
    available = machine.available_bytes
    free = "" if available is None else f", {mib(available)} available"
    yield Check("memory", "ok", f"{mib(machine.memory_bytes)}{free}")
    if 0 < machine.shm_bytes < SMALL_SHM:
        yield Check(
            "/dev/shm",
            "limit",
            f"{mib(machine.shm_bytes)} free",
            "loader workers pass batches through it: give the container `--shm-size=8g` or `--ipc=host`",
        )
    elif machine.shm_bytes:
        yield Check("/dev/shm", "ok", f"{mib(machine.shm_bytes)} free")


def _devices(machine: Machine, torch: dict[str, Any]) -> Iterator[Check]:
    if not machine.gpus:
        yield Check("GPU", "note", "none seen by NVML", "runs are diagnosed and tuned on the CPU")
    for number, gpu in enumerate(machine.gpus):
        link = f", PCIe {gpu.pcie_generation} x{gpu.pcie_width}" if gpu.pcie_generation else ""
        nvlink = f", {gpu.nvlinks} NVLinks" if gpu.nvlinks else ""
        yield Check(f"GPU {number}", "ok", f"{gpu.name}, {mib(gpu.memory_bytes)}{link}{nvlink}")
        if gpu.pcie_width is not None and gpu.pcie_width < 16:
            yield Check(
                f"GPU {number} link",
                "limit",
                f"PCIe x{gpu.pcie_width}",
                "copies to the device are slower than on x16; an idle device may lower its link",
            )
    if machine.gpus and "error" not in torch and not torch["cuda"]:
        if torch["cuda_build"] is None:
            yield Check(
                "CUDA",
                "broken",
                f"torch {torch['version']} is built for CPU",
                "install a CUDA build: https://pytorch.org/get-started",
            )
        else:
            yield Check(
                "CUDA",
                "broken",
                f"torch is built for CUDA {torch['cuda_build']}, driver {machine.driver}",
                "the driver may be too old, or CUDA_VISIBLE_DEVICES hides the devices",
            )


def _tools(machine: Machine) -> Iterator[Check]:
    if machine.has_compiler:
        yield Check("C++ compiler", "ok", "found")
    else:
        yield Check(
            "C++ compiler",
            "limit",
            "none found",
            "torch.compile needs one on the CPU: `apt install g++`, or set CXX",
        )


def _folders() -> Iterator[Check]:
    from advisor.tuners.supervision.isolation import probe

    free = shutil.disk_usage(".").free
    if free < LITTLE_DISK:
        yield Check("disk", "limit", f"{mib(free)} free here", "studies, logs and compiled code need room")
    else:
        yield Check("disk", "ok", f"{mib(free)} free here")
    with tempfile.TemporaryDirectory(prefix="advisor-") as scratch:
        found = probe(Path.cwd(), Path(scratch))
    if isinstance(found, str):
        yield Check(
            "write isolation",
            "note",
            f"not possible: {found}",
            "files that a program writes are written for real, once per trial",
        )
    elif found.left:
        yield Check("write isolation", "note", f"not in {', '.join(folder for folder, _ in found.left)}")
    else:
        yield Check("write isolation", "ok", "what a program writes is kept apart while tuning")


def _environment() -> Iterator[Check]:
    slow = {
        "CUDA_LAUNCH_BLOCKING": "every kernel is waited for",
        "TORCH_DISTRIBUTED_DEBUG": "collectives are checked",
        "TORCH_SHOW_CPP_STACKTRACES": "stacks are collected",
        "PYTHONDEVMODE": "Python checks itself",
        "PYTHONTRACEMALLOC": "every allocation is traced",
    }
    for name, effect in slow.items():
        value = os.environ.get(name, "")
        if value not in ("", "0", "OFF"):
            yield Check(name, "limit", f"{value}: {effect}", f"`unset {name}`")
    if os.environ.get("WORLD_SIZE"):
        yield Check("WORLD_SIZE", "limit", os.environ["WORLD_SIZE"], "start advisor without a launcher")
    line = completion_line()
    if line is not None:
        yield Check("completion", "note", "of commands, knobs and rules", f"`{line}`")
