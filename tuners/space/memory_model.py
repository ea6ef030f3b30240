"""How much memory a configuration needs: predicted from one run.

A step has two summits. At the end of the forward all activations are held; they grow with the batch. At
the update they are gone, and all gradients are there beside what the update itself needs. Parameters,
optimizer state and the process stay throughout.
"""

from dataclasses import dataclass, replace

from advisor.profiles.facts.profile import OptimizerFacts, Profile
from advisor.tuners.knob import Config

HEADROOM = 0.08  # of memory, that must stay free
AMP_SHARE = 0.62  # of activations under autocast; a U-Net went from 710 to 442 MB
LEAST_AMP_SHARE = 0.5  # 16 bits for every number
CHECKPOINTED_SHARE = 0.8  # of activations; a U-Net went from 710 to 565 MB, a GPT-2 from 837 to 641
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
    """Peak memory of a run, linear in the batch: of the device where there is one, else of the host.

    Autocast keeps about half of the activations: nearly 2 times less memory in all (Micikevicius et al.
    2018, Mixed Precision Training); measured on a U-Net 442 of 710 MB, since losses and norms stay in 32
    bits. It also holds a 16-bit copy of every weight. Checkpointing took 20 to 23 % away on a U-Net and a
    GPT-2; how much it can take depends on the blocks. A foreach update needs one more copy of the
    parameters (pytorch #97712), after the activations are gone. With accumulation the activations of one
    micro-batch stand beside the gradients. What compilation needs is not predicted.

    Attributes:
        batch: The program's own batch size.
        process_bytes: What is there besides: interpreter, libraries, data in memory. Fitted, so it also
            takes up what the other parts were wrong about.
        sample_bytes: Activations per sample without autocast or checkpointing, as far as is known.
        least_sample_bytes: They are surely not less.
        activations_seen: Activations were counted by themselves; else they are what other parts leave.
        batch_bytes: Of one batch of the program's own size, as the loader delivers it.
        gradients_stay: Gradients are kept from step to step, or over several batches.
    """

    batch: int
    on_host: bool = True
    parameter_bytes: int = 0
    gradient_bytes: int = 0
    optimizer_bytes: int = 0
    process_bytes: float = 0.0
    sample_bytes: float = 0.0
    least_sample_bytes: float = 0.0
    activations_seen: bool = False
    batch_bytes: int = 0
    num_workers: int = 0
    prefetch_factor: int = DEFAULT_PREFETCH
    blocks: int = 0
    implementation: str = "for-loop"
    foreach_by_default: bool = False
    gradients_stay: bool = False

    @property
    def fixed_bytes(self) -> int:
        """What does not grow with the batch: parameters, gradients, optimizer state, the process itself."""
        return round(self._kept + self.process_bytes + self._passing_gradients)

    def predict(self, config: Config) -> int:
        """Peak bytes under a configuration; what it does not say is as in the program itself."""
        return self._peak(config, self.sample_bytes * self._samples(config) + self._beside(config))

    def at_least(self, config: Config) -> int:
        """Peak bytes that are surely needed, by the most that each setting can save.

        Nothing is sure with a setting that saves an unknown part.
        """
        if any(config.get(name, "off") not in OFF for name in UNKNOWN_SAVINGS):
            return 0
        samples = self._batch(config) * self._share(config, lowest=True)
        return self._peak(config, self.least_sample_bytes * samples)

    def calibrated(self, batch: int, peak_bytes: int, config: Config | None = None) -> "MemoryModel":
        """The model after a real run with ``batch`` under ``config``; queues of workers not counted.

        It corrects the fixed part where activations were seen, else it bounds what a sample needs from above.
        """
        settings = {**(config or {}), "batch_size": batch}
        samples = self._samples(settings)
        rest = peak_bytes - self._kept - self._beside(settings)
        return self._through_one(samples, rest, self._update(settings))

    def queue_bytes(self, config: Config) -> int:
        """Batches that wait in the queues of loader workers, on the host: workers x prefetch x batch."""
        workers = int(config.get("num_workers", self.num_workers))
        depth = int(config.get("prefetch_factor", self.prefetch_factor))
        return round(workers * depth * self.batch_bytes * self._batch(config) / self.batch)

    def _through_one(self, samples: float, rest: float, update: int) -> "MemoryModel":
        """One run: ``rest`` is the process and the higher summit."""
        activations = self.sample_bytes * samples
        if self.activations_seen and activations <= rest:
            return replace(
                self,
                process_bytes=max(0.0, rest - max(activations, update)),
                least_sample_bytes=self.sample_bytes,
            )
        most = max(0.0, rest) / samples
        other = self._passing_gradients + OTHER_ON_DEVICE
        least = 0.0 if self.on_host else max(0.0, rest - other) / samples
        return replace(
            self,
            process_bytes=0.0,
            sample_bytes=most,
            least_sample_bytes=least,
            activations_seen=False,
        )

    @property
    def _kept(self) -> int:
        kept = self.parameter_bytes + self.optimizer_bytes
        return kept + (self.gradient_bytes if self.gradients_stay else 0)

    @property
    def _passing_gradients(self) -> int:
        """Gradients that are there at the update, but not yet at the end of the forward."""
        return 0 if self.gradients_stay else self.gradient_bytes

    def _peak(self, config: Config, at_forward: float) -> int:
        peak = self._kept + self.process_bytes + max(at_forward, self._update(config))
        return round(peak) + (self.queue_bytes(config) if self.on_host else 0)

    def _update(self, config: Config) -> int:
        """What the update needs beside what is always there."""
        form = config.get("optimizer_implementation", self.implementation)
        foreach = form == "foreach" or (form == "default" and self.foreach_by_default)
        return self._passing_gradients + (self.parameter_bytes if foreach else 0)

    def _beside(self, config: Config) -> int:
        """What stands beside the activations: weights in 16 bits, gradients of earlier micro-batches."""
        weights = 0 if config.get("amp", "off") in OFF else self.parameter_bytes // 2
        return weights + (self._passing_gradients if _parts(config) > 1 else 0)

    def _batch(self, config: Config) -> int:
        return int(config.get("batch_size", self.batch))

    def _samples(self, config: Config) -> float:
        """The batch in samples that are computed at once, without autocast or checkpointing."""
        return self._batch(config) * self._share(config)

    def _share(self, config: Config, *, lowest: bool = False) -> float:
        share = 1.0 / _parts(config)
        if config.get("amp", "off") not in OFF:
            share *= LEAST_AMP_SHARE if lowest else AMP_SHARE
        if config.get("activation_checkpointing", "none") not in OFF:
            share *= 1 / max(2, self.blocks) if lowest else CHECKPOINTED_SHARE
        if lowest and config.get("execution", "eager") != "eager":
            share *= LEAST_COMPILED_SHARE
        return share


def memory_model(profile: Profile) -> MemoryModel | None:
    """The model of a program by one run of it; ``None`` where batch size or memory are not known."""
    loader, memory = profile.loader, profile.memory
    if loader is None or loader.batch_size is None or memory is None:
        return None
    on_host = not profile.device.startswith("cuda")
    peak = memory.host_peak_bytes if on_host else memory.device_peak_bytes
    if not peak:
        return None
    seen = (memory.activation_bytes or 0) if on_host else 0  # on a device they are what other parts leave
    model = MemoryModel(
        batch=loader.batch_size,
        on_host=on_host,
        parameter_bytes=memory.parameter_bytes or sum(root.parameter_bytes for root in profile.roots),
        gradient_bytes=memory.gradient_bytes or 0,
        optimizer_bytes=memory.optimizer_bytes or 0,
        sample_bytes=seen / loader.batch_size,
        activations_seen=seen > 0,
        batch_bytes=loader.batch_bytes or 0,
        num_workers=loader.num_workers,
        prefetch_factor=loader.prefetch_factor or DEFAULT_PREFETCH,
        blocks=max((root.repeated_blocks for root in profile.roots), default=0),
        implementation=_implementation(profile.optimizers),
        foreach_by_default=not on_host and all(facts.has_foreach for facts in profile.optimizers),
        gradients_stay=_gradients_stay(profile),
    )
    return model.calibrated(model.batch, peak)


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


def _parts(config: Config) -> int:
    """Micro-batches of a batch."""
    return max(1, int(config.get("accumulation", 1)))


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
