"""Memory is nearly full."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import MemoryUse, Profile

DEVICE = 0.90  # of the device, at the peak of a step; PyTorch's TensorBoard plug-in (TraceML: 92 %)
HOST = 0.80  # of the host's memory or the cgroup's limit; TraceML
CRITICAL = 0.97  # TraceML


class MemoryPressure(Rule):
    """The peak of a step comes close to what the device, the machine or its cgroup offers.

    A slightly larger batch, a longer sequence or another process then ends the run. Shortly before that a
    GPU's allocator gives all cached memory back and asks again, which stops the device each time; a host
    starts to swap, or the kernel kills the process. Store fewer activations (checkpoint blocks), compute in
    16 bits, or give each step a smaller micro-batch and accumulate gradients.
    """

    family = Family.MEMORY
    kind = Kind.RISK
    on_traces = "memory in use and its limit: a trace does not hold them"
    threshold = (
        "device peak above 90 % (TensorBoard plug-in), host or cgroup above 80 %, high from 97 % (TraceML), "
        "or any allocation retry"
    )
    knobs = ("activation_checkpointing", "amp", "accumulation", "zero", "fsdp")
    timed = False

    def check(self, profile: Profile) -> Finding:
        memory = profile.memory
        if memory is None:
            return self.not_applicable("memory use", "is watched while the program runs")
        device, host = device_share(memory), _host_share(profile, memory)
        used = [share for share in (device, host) if share is not None]
        retries = memory.allocation_retries or 0
        if not used and memory.allocation_retries is None:
            return self.not_applicable("memory limits", "are read from the device and the cgroup")
        device_full = device is not None and device > DEVICE
        host_full = host is not None and host > HOST
        if retries:
            title = f"{retries} times the allocator ran out of device memory and had to give its cache back"
        elif device is not None and device_full:
            title = f"{percent(device)} of device memory is in use at the peak of a step"
        elif host is not None and host_full:
            title = f"{percent(host)} of host memory is in use"
        else:
            return self.passed(f"{percent(max(used, default=0.0))} of memory is in use at the peak of a step")
        critical = retries > 0 or max(used, default=0.0) >= CRITICAL
        own_autocast = profile.run is not None and profile.run.own_autocast
        return self.diagnostic(
            title,
            advice=_advice(memory),
            severity=Severity.HIGH if critical else None,
            evidence={
                "device_share": None if device is None else round(device, 4),
                "host_share": None if host is None else round(host, 4),
                "allocation_retries": memory.allocation_retries,
            },
            knobs=tuple(knob for knob in self.knobs if not (knob == "amp" and own_autocast)),
        )


def device_share(memory: MemoryUse) -> float | None:
    """Allocated peak over the device's memory; ``None`` without a device."""
    if memory.device_peak_bytes is None or not memory.device_total_bytes:
        return None
    return memory.device_peak_bytes / memory.device_total_bytes


def _host_share(profile: Profile, memory: MemoryUse) -> float | None:
    if memory.host_used_share is not None:
        return memory.host_used_share
    limit = memory.host_limit_bytes or profile.machine.memory_bytes
    return memory.host_peak_bytes / limit if limit and memory.host_peak_bytes else None


def _advice(memory: MemoryUse) -> str:
    kept = [memory.parameter_bytes, memory.gradient_bytes, memory.optimizer_bytes]
    activations = memory.activation_bytes
    if activations is not None and activations >= sum(size or 0 for size in kept):
        return (
            "Recompute activations: call the largest blocks through "
            "`torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)`, which lowers the peak and "
            "computes their forward twice."
        )
    return (
        "Halve `batch_size` and step the optimizer after every second backward with `loss / 2`, "
        "which lowers the peak and changes only what is computed over a batch, such as batch norm."
    )
