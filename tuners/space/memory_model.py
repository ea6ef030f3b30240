"""How much memory a configuration needs at least, by one run.

A step has two summits. At the end of the forward all activations are held; they grow with the batch. At
the update they are gone, and all gradients are there beside what the update itself needs. Parameters,
optimizer state and the process stay throughout.
"""

from dataclasses import dataclass, replace

from advisor.profiles.facts.profile import OptimizerFacts, Profile
from advisor.tuners.knob import Config

HEADROOM = 0.08  # of memory, that must stay free
LEAST_AMP_SHARE = 0.5  # of activations under autocast: 16 bits for every number
LEAST_COMPILED_SHARE = 0.5  # of activations; assumed: a compiler recomputes what is cheap to compute
OTHER_ON_DEVICE = (
    2**30
)  # assumed: workspaces of libraries, buffers and copies that do not grow with the batch
DEFAULT_PREFETCH = 2
OFF = ("off", "none")
UNKNOWN_SAVINGS = (
    "activation_memory_budget",
    "low_precision_parameters",
    "optimizer_in_backward",
    "saved_tensor_offload",
)


@dataclass(frozen=True)
class MemoryModel:
    """The least peak memory of a run, linear in the batch: of the device if there is one, else of the host.

    A foreach update needs one more copy of the parameters (pytorch #97712), after the activations are gone.
    With accumulation the activations of one micro-batch are there at once.

    Attributes:
        batch: The program's own batch size.
        kept_bytes: Parameters, optimizer state, and gradients that stay from step to step.
        passing_bytes: Gradients that are there at the update, but not yet at the end of the forward.
        process_bytes: What is there besides: interpreter, libraries, data in memory. Fitted, so it also
            takes up what the other parts were wrong about.
        sample_bytes: Activations per sample are surely not less, without autocast or checkpointing.
        batch_bytes: Of one batch of the program's own size, as the loader delivers it.
    """

    batch: int
    on_host: bool
    parameter_bytes: int
    kept_bytes: int
    passing_bytes: int
    batch_bytes: int
    num_workers: int
    prefetch_factor: int
    blocks: int
    implementation: str
    foreach_by_default: bool
    process_bytes: float = 0.0
    sample_bytes: float = 0.0

    def at_least(self, config: Config) -> int:
        """Peak bytes that are surely needed, by the most that each setting can save.

        Nothing is sure with a setting that saves an unknown part.
        """
        if any(config.get(name, "off") not in OFF for name in UNKNOWN_SAVINGS):
            return 0
        batch = int(config.get("batch_size", self.batch))
        at_forward = self.sample_bytes * batch * self._least_share(config)
        peak = round(self.kept_bytes + self.process_bytes + max(at_forward, self.update_bytes(config)))
        return peak + (self._queue_bytes(config, batch) if self.on_host else 0)

    def update_bytes(self, config: Config) -> int:
        """What the update needs beside what is always there."""
        form = config.get("optimizer_implementation", self.implementation)
        foreach = form == "foreach" or (form == "default" and self.foreach_by_default)
        return self.passing_bytes + (self.parameter_bytes if foreach else 0)

    def _queue_bytes(self, config: Config, batch: int) -> int:
        """Batches that wait in the queues of loader workers, on the host: workers x prefetch x batch."""
        workers = int(config.get("num_workers", self.num_workers))
        depth = int(config.get("prefetch_factor", self.prefetch_factor))
        return round(workers * depth * self.batch_bytes * batch / self.batch)

    def _least_share(self, config: Config) -> float:
        share = 1.0 / max(1, int(config.get("accumulation", 1)))
        if config.get("amp", "off") not in OFF:
            share *= LEAST_AMP_SHARE
        if config.get("activation_checkpointing", "none") not in OFF:
            share /= max(2, self.blocks)
        if config.get("execution", "eager") != "eager":
            share *= LEAST_COMPILED_SHARE
        return share


def memory_model(profile: Profile) -> MemoryModel | None:
    """The model of a program by one run of it; ``None`` where batch size or memory are not known.

    Where activations were counted the rest of the peak is the process. Where they were not, those of a device
    are at least what gradients and ``OTHER_ON_DEVICE`` leave, and nothing is sure on the host.
    """
    loader, memory = profile.loader, profile.memory
    if loader is None or loader.batch_size is None or memory is None:
        return None
    on_host = not profile.device.startswith("cuda")
    peak = memory.host_peak_bytes if on_host else memory.device_peak_bytes
    if not peak:
        return None
    parameters = memory.parameter_bytes or sum(root.parameter_bytes for root in profile.roots)
    gradients, stay = memory.gradient_bytes or 0, _gradients_stay(profile)
    model = MemoryModel(
        batch=loader.batch_size,
        on_host=on_host,
        parameter_bytes=parameters,
        kept_bytes=parameters + (memory.optimizer_bytes or 0) + (gradients if stay else 0),
        passing_bytes=0 if stay else gradients,
        batch_bytes=loader.batch_bytes or 0,
        num_workers=loader.num_workers,
        prefetch_factor=loader.prefetch_factor or DEFAULT_PREFETCH,
        blocks=max((root.repeated_blocks for root in profile.roots), default=0),
        implementation=_implementation(profile.optimizers),
        foreach_by_default=not on_host and all(facts.has_foreach for facts in profile.optimizers),
    )
    rest, seen = peak - model.kept_bytes, (memory.activation_bytes or 0) if on_host else 0
    if 0 < seen <= rest:
        process = max(0, rest - max(seen, model.update_bytes({})))
        return replace(model, process_bytes=process, sample_bytes=seen / model.batch)
    least = 0 if on_host else max(0, rest - model.passing_bytes - OTHER_ON_DEVICE)
    return replace(model, sample_bytes=least / model.batch)


def memory_limit(profile: Profile, max_memory: int | None = None) -> int | None:
    """Bytes that a run may use: ``max_memory`` if given, else what there is less 8 %.

    That is the device's memory, or what is free for this program on the host. ``None`` where unknown.
    """
    if max_memory is not None:
        return max_memory
    if profile.device.startswith("cuda"):
        there_is = profile.memory.device_total_bytes if profile.memory is not None else None
    else:
        there_is = host_bytes(profile)
    return None if not there_is else round((1 - HEADROOM) * there_is)


def host_bytes(profile: Profile) -> int:
    """What this program can have of the host's memory: what is free, and what its own run had of it."""
    machine, memory = profile.machine, profile.memory
    own = memory.host_peak_bytes if memory is not None else 0
    bounds = [machine.memory_bytes]
    if machine.available_bytes is not None:
        bounds.append(machine.available_bytes + own)
    if memory is not None and memory.host_limit_bytes and memory.host_used_share is not None:
        bounds.append(int(memory.host_limit_bytes * max(0.0, 1 - memory.host_used_share)) + own)
    return min(bounds)


def free_bytes(profile: Profile) -> int:
    """What is left of that beside the run's own peak."""
    own = profile.memory.host_peak_bytes if profile.memory is not None else 0
    return host_bytes(profile) - own


def limited(profile: Profile, max_memory: int | None) -> Profile:
    """The profile as if there were no more memory than ``max_memory`` and the headroom."""
    if max_memory is None:
        return profile
    whole = int(max_memory / (1 - HEADROOM))
    if not profile.device.startswith("cuda"):
        least = min(whole, profile.machine.memory_bytes)
        return replace(profile, machine=replace(profile.machine, memory_bytes=least))
    if profile.memory is None:
        return profile
    total = min(whole, profile.memory.device_total_bytes or whole)
    return replace(profile, memory=replace(profile.memory, device_total_bytes=total))


def _gradients_stay(profile: Profile) -> bool:
    run = profile.run
    zeroed = any(facts.zeroes_gradients for facts in profile.optimizers)
    return zeroed or (run is not None and run.backwards_per_step > 1)


def _implementation(optimizers: tuple[OptimizerFacts, ...]) -> str:
    """The form that needs most among the program's optimizers, as the knob spells it."""
    if any(facts.foreach for facts in optimizers):
        return "foreach"
    undecided = any(facts.foreach is None and not facts.fused for facts in optimizers)
    return "default" if undecided else "for-loop"
