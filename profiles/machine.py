"""What the machine offers to this process: CPUs allowed, memory, GPUs, versions."""

import hashlib
import importlib.metadata
import os
import platform
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA device as NVML describes it; ``memory_bytes`` is its total."""

    name: str
    uuid: str
    memory_bytes: int
    capability: tuple[int, int]


@dataclass(frozen=True)
class Machine:
    """Facts that bound what can be tried. Sizes in bytes.

    ``cpus_allowed`` respects affinity and cgroup quota. ``bf16_speedup`` is the measured rate of a
    bfloat16 matmul over a float32 one on this CPU with one thread; below 1 there are no units for it.
    """

    cpus_allowed: int
    physical_cores: int
    memory_bytes: int
    shm_bytes: int
    cpu_model: str = ""
    platform: str = ""
    python: str = ""
    torch: str = ""
    torch_default_threads: int | None = None
    cpu_capability: str | None = None
    bf16_speedup: float | None = None
    mkldnn: bool = False
    has_compiler: bool = False
    cuda: bool = False
    gpus: tuple[Gpu, ...] = ()
    governor: str | None = None
    disturbed_by: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Digest of what makes times comparable: processor, CPUs allowed, memory, GPUs, torch."""
        parts = (
            self.cpu_model,
            self.cpus_allowed,
            round(self.memory_bytes / 2**30),
            self.platform,
            [gpu.name for gpu in self.gpus],
            self.torch,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def as_json(self) -> dict[str, object]:
        """The field ``machine`` of a result."""
        return {"fingerprint": self.fingerprint, **asdict(self)}


def read_machine() -> Machine:
    """Read everything that can be known without importing torch; takes a few milliseconds."""
    import psutil

    return Machine(
        cpus_allowed=cpus_allowed(),
        physical_cores=psutil.cpu_count(logical=False) or 1,
        memory_bytes=min(psutil.virtual_memory().total, _cgroup_number("memory.max") or 2**62),
        shm_bytes=_size_of("/dev/shm"),
        cpu_model=_cpu_model(),
        platform=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        torch=_version("torch"),
        has_compiler=any(
            shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++") if name
        ),
        gpus=_gpus(),
        governor=_first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    )


def with_torch(machine: Machine, default_threads: int) -> Machine:
    """Add what only torch knows. Runs in the process that trains, after its own torch import.

    Args:
        machine: What ``read_machine`` returned.
        default_threads: ``torch.get_num_threads()`` before anyone changed it.
    """
    import torch

    return replace(
        machine,
        torch=str(torch.__version__),
        torch_default_threads=default_threads,
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        bf16_speedup=_bf16_speedup(),
        mkldnn=torch.backends.mkldnn.is_available(),
        cuda=torch.cuda.is_available(),
    )


def cpus_allowed() -> int:
    """CPUs that this process may use: affinity, bounded by the cgroup's quota."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _first_line(CGROUP / "cpu.max")
    if quota and not quota.startswith("max"):
        allowed, period = (int(part) for part in quota.split())
        count = min(count, max(1, round(allowed / period)))
    return count


def _bf16_speedup(size: int = 384, repeats: int = 5) -> float:
    """Rate of a square bf16 matmul over the float32 one, best of a few, one thread (about 20 ms)."""
    import time

    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        best = {}
        for dtype in (torch.float32, torch.bfloat16):
            square = torch.ones(size, size, dtype=dtype)
            times = []
            for _ in range(repeats):
                start = time.perf_counter()
                torch.mm(square, square)
                times.append(time.perf_counter() - start)
            best[dtype] = min(times)
        return best[torch.float32] / best[torch.bfloat16]
    finally:
        torch.set_num_threads(threads)


def _gpus() -> tuple[Gpu, ...]:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return tuple(
            Gpu(
                name=str(pynvml.nvmlDeviceGetName(handle)),
                uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
                memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
                capability=tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle)),
            )
            for handle in handles
        )
    finally:
        pynvml.nvmlShutdown()


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _cpu_model() -> str:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.processor()


def _size_of(folder: str) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def _cgroup_number(name: str) -> int | None:
    text = _first_line(CGROUP / name)
    return int(text) if text and text.isdigit() else None


def _first_line(path: str | Path) -> str | None:
    lines = _lines(path)
    return lines[0].strip() if lines else None


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
