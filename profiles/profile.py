"""What is known about one run of a training program: frozen records, all optional but the machine.

Missing is not zero: a fact that was not observed is ``None``.
"""

from dataclasses import dataclass

from advisor.profiles.machine import Machine


@dataclass(frozen=True)
class Location:
    """A place in the user's program."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class StepPhases:
    """Mean time of one clean step and of its parts, in milliseconds of wall time.

    Each part is self time: a forward that runs inside ``optimizer.step()`` counts as forward.
    ``other`` is what no part covers, for a loop without a DataLoader also its data.
    """

    step_ms: float
    input_wait_ms: float = 0.0
    transfer_ms: float = 0.0
    forward_ms: float = 0.0
    backward_ms: float = 0.0
    optimizer_ms: float = 0.0
    communication_ms: float = 0.0
    sync_ms: float = 0.0
    other_ms: float = 0.0
    steps: int = 0

    def share(self, *parts: str) -> float:
        """Share (0 to 1) of the step that the named parts take together."""
        if self.step_ms <= 0:
            return 0.0
        taken: float = sum(getattr(self, f"{part}_ms") for part in parts)
        return min(1.0, taken / self.step_ms)


@dataclass(frozen=True)
class LoaderFacts:
    """The DataLoader that feeds the training steps, as the program constructed it.

    ``dataset`` is the ordinal of its dataset among all datasets given to DataLoaders, in the order
    of construction: a second loader built over the same dataset has the same ordinal.
    ``item_ms`` and ``collate_ms`` are medians per item and per batch where items were fetched in the
    main process; ``cpu_share`` is the CPU share of that time.
    """

    dataset: int = 0
    dataset_type: str = ""
    dataset_length: int | None = None
    batch_size: int | None = None
    num_workers: int = 0
    prefetch_factor: int | None = None
    persistent_workers: bool = False
    pin_memory: bool = False
    multiprocessing_context: str | None = None
    own_batch_sampler: bool = False
    own_sampler: bool = False
    iterable: bool = False
    shuffle: bool = False
    drop_last: bool = False
    batch_bytes: int | None = None
    shapes_vary: bool | None = None
    item_ms: float | None = None
    collate_ms: float | None = None
    cpu_share: float | None = None
    epochs_started: int = 0
    location: Location | None = None


@dataclass(frozen=True)
class RootFacts:
    """A root module: what an optimizer updates, or what the program calls."""

    name: str
    parameters: int = 0
    parameter_bytes: int = 0
    dtypes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    dense_convolutions: int = 0
    convolution_dimensions: tuple[int, ...] = ()
    has_batch_norm: bool = False
    has_dropout: bool = False
    has_recurrent: bool = False
    repeated_blocks: int = 0
    takes_4d_input: bool | None = None
    already_compiled: bool = False
    scripted: bool = False


@dataclass(frozen=True)
class OptimizerFacts:
    """One torch optimizer of the program; ``foreach`` and ``fused`` as found in its first group."""

    name: str
    lr: float | None = None
    foreach: bool | None = None
    fused: bool | None = None
    has_foreach: bool = False
    has_fused: bool = False
    differentiable: bool = False
    sparse_gradients: bool = False
    closure: bool = False
    group_count: int = 1


@dataclass(frozen=True)
class RunFacts:
    """How the loop runs: what ticks, in which order, under which flags, and for how long."""

    clock: str = "optimizer"
    optimizer_sequence: str = "0"
    period: int = 1
    backwards_per_step: float = 1.0
    samples_per_step: float | None = None
    sample_source: str | None = None
    own_autocast: bool = False
    own_scaler: bool = False
    own_compile: bool = False
    own_backward_transforms: bool = False
    deterministic: bool = False
    matmul_precision: str = "highest"
    num_threads: int = 1
    sum_reduced_loss: bool | None = None
    steps_seen: int = 0
    steps_total: int | None = None
    evaluation_s: float = 0.0
    save_s: float = 0.0
    epoch_s: float | None = None
    startup_s: float | None = None


@dataclass(frozen=True)
class MemoryUse:
    """Highest memory of the process (host) and of the allocator (device), in bytes."""

    host_peak_bytes: int
    device_peak_bytes: int | None = None
    device_total_bytes: int | None = None


@dataclass(frozen=True)
class Profile:
    """Everything known about a run. Rules and knobs see nothing else."""

    machine: Machine
    target_kind: str = "script"
    device: str = "cpu"
    phases: StepPhases | None = None
    loader: LoaderFacts | None = None
    roots: tuple[RootFacts, ...] = ()
    optimizers: tuple[OptimizerFacts, ...] = ()
    run: RunFacts | None = None
    memory: MemoryUse | None = None
