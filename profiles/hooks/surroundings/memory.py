"""What this process uses memory for, whether it grows, and what the system did to provide it."""

import resource
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.machine import CGROUP
from advisor.profiles.facts.observed import MemoryUse
from advisor.profiles.hooks.model.discovery import dynamo_at_work
from advisor.profiles.hooks.optimizer.optimizer_facts import bytes_of, state_bytes
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.step.graphs import RetainedGraphs
from advisor.profiles.hooks.surroundings.growth import Samples

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

PAGE = resource.getpagesize()


@dataclass(frozen=True)
class _Counters:
    """Of the system, at one moment."""

    step: int
    minor: int
    major: int
    user_s: float
    system_s: float
    swapped_in: int | None


class MemoryWatch:
    """Watches the memory of a training process.

    Args:
        clock: Says how many steps were closed.
        parameters: Gives the parameters of all models.
        optimizers: Gives the optimizers.
    """

    def __init__(
        self,
        clock: Clock,
        parameters: "Callable[[], Iterable[Tensor]]",
        optimizers: "Callable[[], Iterable[Optimizer]]",
    ) -> None:
        self._clock = clock
        self._parameters = parameters
        self._optimizers = optimizers
        self._saved = SavedTensors(parameters)
        self._graphs = RetainedGraphs()
        self._samples: Samples | None = None
        self._watching = False
        self._before: _Counters | None = None
        self._after: _Counters | None = None

    def begin(self) -> None:
        """A watched window begins, at a step border on the thread that trains.

        One that follows another without a step between them goes on with it.
        """
        if self._after is not None and self._after.step == self._clock.steps:
            self._watching, self._after = True, None
            return
        self._graphs.look(self._clock.steps)
        self._samples = Samples(_in_use)
        self._watching = True
        self._before, self._after = _counters(self._clock.steps), None

    def end(self) -> None:
        """It ends, at a later border."""
        if self._watching:
            self._after = _counters(self._clock.steps)
            self._watching = False
            self._graphs.look(self._clock.steps)

    def step(self) -> None:
        """A step was closed."""
        if self._watching and self._samples is not None:
            self._samples.step()

    def inspect(self, on: bool) -> None:
        """Begin or end measuring what steps save for backward, where no allocator says it (on the CPU)."""
        import torch

        if not on:
            self._saved.stop()
        elif not torch.cuda.is_initialized() and not dynamo_at_work():  # new hooks make it compile anew
            self._saved.start()

    def facts(self) -> MemoryUse:
        """Everything known; reading gradients and state wants a step border."""
        import torch

        own = {id(each): each for each in self._parameters()}
        optimizers = list(self._optimizers())
        updated = [each for one in optimizers for group in one.param_groups for each in group["params"]]
        own.update((id(each), each) for each in updated)
        parameters = bytes_of(own.values())
        gradients = bytes_of(each.grad for each in own.values() if each.grad is not None)
        state = sum(state_bytes(optimizer) for optimizer in optimizers)
        known = parameters + gradients + state
        host_peak = peak_bytes()
        growth = None if self._samples is None else self._samples.growth()
        retained = self._graphs.found
        on_device = torch.cuda.is_initialized()
        device = _device_facts(known) if on_device else {}
        activations = None if on_device else self._saved.peak_bytes
        limit, used_share = host_limit()
        return MemoryUse(
            host_peak_bytes=host_peak,
            parameter_bytes=parameters if own else None,
            gradient_bytes=gradients if own else None,
            optimizer_bytes=state if optimizers else None,
            host_limit_bytes=limit,
            host_used_share=used_share,
            growth_steps=0 if growth is None else growth.steps,
            growth_bytes=None if growth is None else growth.bytes,
            growth_bytes_per_step=None if growth is None else growth.bytes_per_step,
            growth_monotone=None if growth is None else growth.monotone,
            retained_graph_nodes_per_step=None if retained is None else retained.nodes_per_step,
            retained_name=None if retained is None else retained.name,
            retained_location=None if retained is None else retained.location,
            **self._window_facts(),
            **(
                device
                or {
                    "activation_bytes": activations,
                    "other_bytes": None if activations is None else max(0, host_peak - known - activations),
                }
            ),
        )

    def _window_facts(self) -> dict[str, Any]:
        before, after = self._before, self._after
        if before is None or after is None or after.step <= before.step:
            return {}
        steps = after.step - before.step
        major = after.major - before.major
        system = after.system_s - before.system_s
        whole = system + after.user_s - before.user_s
        swapped = None
        if before.swapped_in is not None and after.swapped_in is not None:
            # Counted for the whole machine: only where this process waited for pages at all.
            swapped = (after.swapped_in - before.swapped_in) * PAGE if major else 0
        return {
            "swapped_in_bytes": swapped,
            "major_faults_per_step": major / steps,
            "minor_faults_per_step": (after.minor - before.minor) / steps,
            "system_share": system / whole if whole > 0 else None,
        }


class SavedTensors:
    """Sums what autograd saves in a forward and drops in its backward; parameters are not counted."""

    def __init__(self, parameters: "Callable[[], Iterable[Tensor]]") -> None:
        self._parameters = parameters
        self._hooks: Any = None
        self._strided: Any = None
        self._ignored: set[int] = set()
        self._held: set[int] = set()
        self._total = 0
        self._released = False
        self._peak = 0

    @property
    def peak_bytes(self) -> int | None:
        """The most that was held at once; ``None`` before anything was measured."""
        return self._peak or None

    def start(self) -> None:
        """Count from now on, at a step border."""
        import torch

        self._ignored = {each.untyped_storage().data_ptr() for each in self._parameters()}
        self._held.clear()
        self._total = 0
        self._strided = torch.strided
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        self._hooks.__enter__()

    def stop(self) -> None:
        """Count no longer, at a step border."""
        if self._hooks is not None:
            self._hooks.__exit__(None, None, None)
            self._hooks = None

    def _pack(self, tensor: "Tensor") -> "Tensor":
        if self._released:  # a backward lies between: what was held is gone
            self._held.clear()
            self._total = 0
            self._released = False
        if tensor.layout is self._strided:
            storage = tensor.untyped_storage()
            place = storage.data_ptr()
            if place not in self._ignored and place not in self._held:
                self._held.add(place)
                self._total += storage.nbytes()
                self._peak = max(self._peak, self._total)
        return tensor.detach()  # an operator's result must not hold itself

    def _unpack(self, tensor: "Tensor") -> "Tensor":
        self._released = True
        return tensor


def peak_bytes() -> int:
    """Highest resident memory of this process so far."""
    for line in _lines(Path("/proc/self/status")):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def host_limit() -> tuple[int, float]:
    """Bytes that this process may use at most, and the share of them in use: by its cgroup, or by all."""
    import psutil

    memory = psutil.virtual_memory()
    limit = _number(CGROUP / "memory.max")
    if limit is None or limit >= memory.total:
        return memory.total, 1 - memory.available / memory.total
    counts = dict(line.split()[:2] for line in _lines(CGROUP / "memory.stat") if len(line.split()) == 2)
    reclaimable = int(counts.get("inactive_file", 0))
    return limit, max(0, (_number(CGROUP / "memory.current") or 0) - reclaimable) / limit


def free_host_bytes() -> int:
    """What a process or a copy can have of the memory of this machine and its cgroup."""
    import psutil

    limit, used_share = host_limit()
    return min(int(limit * (1 - used_share)), int(psutil.virtual_memory().available))


def _in_use() -> int:
    """Bytes in use now: of the device's allocator where there is one, else resident on the host."""
    import torch

    if torch.cuda.is_initialized():
        return int(torch.cuda.memory_allocated())
    with suppress(OSError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * PAGE
    return peak_bytes()


def _device_facts(known: int) -> dict[str, Any]:
    import torch

    peak = int(torch.cuda.max_memory_allocated())
    return {
        "device_peak_bytes": peak,
        "device_total_bytes": torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory,
        "device_reserved_bytes": int(torch.cuda.max_memory_reserved()),
        "allocation_retries": int(torch.cuda.memory_stats().get("num_alloc_retries", 0)),
        "activation_bytes": max(0, peak - known),
    }


def _counters(step: int) -> _Counters:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    swapped = [line.split()[1] for line in _lines(Path("/proc/vmstat")) if line.startswith("pswpin ")]
    return _Counters(
        step,
        usage.ru_minflt,
        usage.ru_majflt,
        usage.ru_utime,
        usage.ru_stime,
        int(swapped[0]) if swapped else None,
    )


def _number(path: Path) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].strip().isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
