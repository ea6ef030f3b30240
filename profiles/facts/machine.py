"""What the machine offers to this process: CPUs allowed, memory, GPUs, versions."""

import hashlib
import importlib.metadata
import os
import platform
import shutil
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA device as NVML describes it; ``memory_bytes`` is its total.

    ``nvlinks`` counts active links, ``highest_clock_mhz`` is the highest clock of its multiprocessors.
    What NVML cannot say of a device is ``None``.
    """

    name: str
    uuid: str
    memory_bytes: int
    capability: tuple[int, int]
    pcie_generation: int | None = None
    pcie_width: int | None = None
    nvlinks: int | None = None
    clock_mhz: int | None = None
    highest_clock_mhz: int | None = None
    temperature_c: int | None = None


@dataclass(frozen=True)
class Machine:
    """Facts that bound what can be tried. Sizes in bytes.

    ``cpus_allowed`` respects affinity and cgroup quota. ``bf16_speedup`` is the measured rate of a
    bfloat16 matmul over a float32 one on this CPU with one thread; below 1 there are no units for it.
    ``numa_nodes`` counts the memory nodes that the allowed CPUs lie on.
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
    numa_nodes: int | None = None
    cpus_online: int | None = None
    swap_bytes: int | None = None
    available_bytes: int | None = None
    driver: str | None = None
    caches: tuple[tuple[str, int], ...] = ()

    @property
    def places(self) -> int:
        """Processes that can train at once, each with a device of its own: GPUs, else CPUs allowed."""
        return len(self.gpus) or self.cpus_allowed

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

    gpus, driver = _gpus()
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
        gpus=gpus,
        governor=_first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        numa_nodes=numa_nodes(),
        cpus_online=psutil.cpu_count() or None,
        swap_bytes=psutil.swap_memory().total,
        available_bytes=psutil.virtual_memory().available,
        driver=driver,
        caches=cache_sizes(),
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


def cgroup_throttling() -> tuple[int, int]:
    """Periods of the cgroup's CPU quota so far, and those in which it was used up; zeros without one."""
    counts = dict(line.split()[:2] for line in _lines(CGROUP / "cpu.stat") if len(line.split()) == 2)
    return int(counts.get("nr_periods", 0)), int(counts.get("nr_throttled", 0))


@cache
def _bf16_speedup(size: int = 384, repeats: int = 5) -> float:
    """Rate of a square bf16 matmul over the float32 one, best of a few, one thread.

    Takes 20 ms, and 0.3 s on a CPU without units for bf16: measured once in a process.
    """
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


def numa_nodes(folder: Path = Path("/sys/devices/system/node")) -> int | None:
    """Memory nodes that the allowed CPUs lie on; ``None`` where the system does not say."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = os.sched_getaffinity(0)
    nodes = [_cpu_list(_first_line(node / "cpulist") or "") for node in folder.glob("node[0-9]*")]
    return sum(bool(cpus & allowed) for cpus in nodes) or None


def cache_sizes(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> tuple[tuple[str, int], ...]:
    """Bytes of the data caches of the first CPU, by level: ``(("L1", 32768), ...)``."""
    sizes = {}
    for index in sorted(folder.glob("index*")):
        size = _first_line(index / "size") or ""
        if _first_line(index / "type") in ("Data", "Unified") and size.endswith("K"):
            sizes[f"L{_first_line(index / 'level')}"] = int(size[:-1]) * 1024
    return tuple(sizes.items())


def _cpu_list(text: str) -> set[int]:
    """``0-3,8`` as a set of numbers."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _gpus() -> tuple[tuple[Gpu, ...], str | None]:
    """The devices that NVML sees, and the version of the driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return (), None
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return tuple(_gpu(handle) for handle in handles), str(pynvml.nvmlSystemGetDriverVersion())
    finally:
        pynvml.nvmlShutdown()


def _gpu(handle: Any) -> Gpu:
    import pynvml

    def asked(name: str, *arguments: Any) -> int | None:
        try:
            return int(getattr(pynvml, name)(handle, *arguments))
        except pynvml.NVMLError:  # not every device knows everything
            return None

    links = [asked("nvmlDeviceGetNvLinkState", link) for link in range(pynvml.NVML_NVLINK_MAX_LINKS)]
    return Gpu(
        name=str(pynvml.nvmlDeviceGetName(handle)),
        uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
        memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        capability=tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle)),
        pcie_generation=asked("nvmlDeviceGetCurrPcieLinkGeneration"),
        pcie_width=asked("nvmlDeviceGetCurrPcieLinkWidth"),
        nvlinks=sum(state == 1 for state in links) if any(state is not None for state in links) else None,
        clock_mhz=asked("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM),
        highest_clock_mhz=asked("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_SM),
        temperature_c=asked("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU),
    )


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
