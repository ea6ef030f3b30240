"""What is known about one run of a training program: frozen records, all optional but the machine.

Missing is not zero: a fact that was not observed is ``None``.
"""

from dataclasses import dataclass, field

from advisor.base.unit import Unit
from advisor.profiles.facts.growing import Growth
from advisor.profiles.facts.inherited import Inherited
from advisor.profiles.facts.machine import Machine
from advisor.profiles.facts.observed import (
    CompileFacts,
    Denormals,
    GradientFacts,
    HostFacts,
    HotSpot,
    LineCalls,
    Location,
    MemoryUse,
    RankFacts,
    StepSeries,
    SyncPoint,
)
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.recorded import Collective, Window
from advisor.profiles.facts.replayed import Replays
from advisor.profiles.facts.served import ServedFacts

__all__ = [
    "EmbeddingFacts",
    "LoaderFacts",
    "Location",
    "MemoryUse",
    "OptimizerFacts",
    "Profile",
    "RootFacts",
    "RunFacts",
    "StepPhases",
]


@dataclass(frozen=True)
class StepPhases:
    """Mean time of one clean step and of its parts, in milliseconds of wall time.

    Each part is self time: a forward that runs inside ``optimizer.step()`` counts as forward.
    ``other`` is what no part covers, for a loop without a DataLoader also its data. ``steps`` is how many
    clean steps these are means of; with ``all_flagged`` none was clean and all were taken, so ``evaluation``
    and ``save`` may be in them.
    """

    step_ms: float
    input_wait_ms: float = 0.0
    transfer_ms: float = 0.0
    forward_ms: float = 0.0
    backward_ms: float = 0.0
    optimizer_ms: float = 0.0
    communication_ms: float = 0.0
    sync_ms: float = 0.0
    logging_ms: float = 0.0
    evaluation_ms: float = 0.0
    save_ms: float = 0.0
    other_ms: float = 0.0
    steps: int = 0
    all_flagged: bool = False

    def share(self, *parts: str) -> float:
        """Share (0 to 1) of the step that the named parts take together."""
        if self.step_ms <= 0:
            return 0.0
        taken: float = sum(getattr(self, f"{part}_ms") for part in parts)
        return min(1.0, taken / self.step_ms)

    @property
    def compute_ms(self) -> float:
        """Forward, backward and optimizer together."""
        return self.forward_ms + self.backward_ms + self.optimizer_ms


@dataclass(frozen=True)
class LoaderFacts:
    """The DataLoader that feeds the training steps, as the program constructed it.

    ``dataset`` is the ordinal of its dataset among all datasets given to DataLoaders, in the order
    of construction: a second loader built over the same dataset has the same ordinal.
    ``item_ms`` and ``collate_ms`` are medians per item and per batch, of the first batches where items
    are fetched in the main process, else of a few items fetched there for the purpose; ``cpu_share`` is
    the share that is CPU time, of the time in which other programs did not keep it from a CPU.
    ``item_p99_ms`` is their slow end.

    ``transport_ms`` is what passing one batch between processes costs. ``construct_ms`` is the mean time
    of constructing one, ``constructed`` how many the same line made over the same dataset and iterated.
    ``worker_start_ms`` is the mean time from asking for an epoch to its first batch, less a usual wait,
    and of ending its workers; ``first_step_ms`` how much longer than the later ones the first step of an
    epoch usually works, without waits; ``epoch_wall_s`` the mean time between two epochs, ``epoch_wait_ms``
    the mean wait per batch, by epoch.
    ``item_read_bytes`` are bytes read from files per item, ``item_told_bytes`` those that another process
    sent through a connection of ``multiprocessing``, ``network_filesystem`` the type of the file
    system where it is one. ``duplicate_share`` is the share of samples that several workers delivered.
    ``padding_share`` is the share of padding among the tokens of integer batches. ``shapes`` counts
    different batch shapes. ``slow_line`` is where sampling met the making of items most.
    ``dataset_changes`` names an attribute of the dataset, or of the function that joins its items, that the
    program changed between two epochs, ``inherited`` is what they hold that workers should not get a copy of.
    ``items_change`` names one that the making of items changes, ``items_cached`` is whether it gets more
    entries, as a cache does.
    ``draw_ms`` is the time per step in which the main process draws the
    numbers of items, where a sampler is the program's own, and ``draw_line`` where. ``first_draw_ms`` is
    what the first numbers of an epoch take; ``sampler_type`` is what draws them, at ``sampler_line`` where
    it is the program's own. ``batch_tensors`` counts the tensors of the first batch. ``transformed`` is
    whether the dataset passes each item through its ``transform``, as those of torchvision do. ``fixed`` is
    why its iterator cannot be made anew within an epoch; ``None`` where it can.
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
    item_p99_ms: float | None = None
    transport_ms: float | None = None
    construct_ms: float | None = None
    constructed: int = 1
    worker_start_ms: float | None = None
    first_step_ms: float | None = None
    epoch_wall_s: float | None = None
    epoch_wait_ms: tuple[float, ...] = ()
    item_read_bytes: int | None = None
    item_told_bytes: int = 0
    network_filesystem: str | None = None
    duplicate_share: float | None = None
    padding_share: float | None = None
    shapes: int | None = None
    slow_line: Location | None = None
    dataset_changes: str | None = None
    inherited: tuple[Inherited, ...] = ()
    fixed: str | None = None
    draw_ms: float | None = None
    draw_line: Location | None = None
    items_change: str | None = None
    items_cached: bool = False
    first_draw_ms: float | None = None
    batch_tensors: int | None = None
    sampler_type: str = ""
    sampler_line: Location | None = None
    transformed: bool = False

    @property
    def item_cpu_ms(self) -> float | None:
        """CPU time that an item takes, its part of joining a batch included; ``None`` where it is unknown."""
        if self.item_ms is None or self.cpu_share is None:
            return None
        joined = (self.collate_ms or 0.0) / (self.batch_size or 1)
        return (self.item_ms + joined) * self.cpu_share


@dataclass(frozen=True)
class EmbeddingFacts:
    """An embedding table; ``touched_share`` is the share of its rows that one step reads.

    ``tied`` is whether another module uses the same parameter, such as an output layer.
    """

    name: str
    rows: int
    columns: int
    sparse: bool = False
    touched_share: float | None = None
    parameter_bytes: int = 0
    tied: bool | None = None


@dataclass(frozen=True)
class RootFacts:
    """A root module: what an optimizer updates, or what the program calls."""

    name: str
    parameters: int = 0
    parameter_bytes: int = 0
    dtypes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    dense_convolutions: int = 0
    grouped_convolutions: int = 0
    convolution_dimensions: tuple[int, ...] = ()
    has_batch_norm: bool = False
    has_dropout: bool = False
    repeated_blocks: int = 0
    takes_4d_input: bool | None = None
    already_compiled: bool = False
    scripted: bool = False
    channels_last: bool | None = None
    biases_before_norm: tuple[str, ...] = ()
    checkpointed: bool = False
    parallel: str | None = None
    find_unused_parameters: bool | None = None
    static_graph: bool | None = None
    unused_parameters: int | None = None
    embeddings: tuple[EmbeddingFacts, ...] = ()
    location: Location | None = None


@dataclass(frozen=True)
class OptimizerFacts:
    """One torch optimizer of the program; ``foreach`` and ``fused`` as found in its first group.

    ``without_gradient_bytes`` are bytes of parameters that had no gradient in any update seen.
    ``zeroes_gradients`` is whether gradients are cleared by writing zeros, ``zero_grad_ms`` the time of
    clearing them per step. ``groups`` counts the groups of parameters, ``distinct_groups`` those that would
    be left if groups with equal settings were one. ``updates`` were done, by this one and the ``renewed``
    others that the program made at its line in its place.
    """

    name: str
    lr: float | None = None
    foreach: bool | None = None
    fused: bool | None = None
    has_foreach: bool = False
    has_fused: bool = False
    differentiable: bool = False
    sparse_gradients: bool = False
    closure: bool = False
    parameters: int | None = None
    parameter_bytes: int | None = None
    state_bytes: int | None = None
    without_gradient_bytes: int | None = None
    zeroes_gradients: bool | None = None
    zero_grad_ms: float | None = None
    location: Location | None = None
    groups: int | None = None
    distinct_groups: int | None = None
    renewed: int = 0
    updates: int | None = None

    @property
    def implementation(self) -> str:
        """``fused``, ``foreach`` or ``for-loop``: what runs on the CPU, where torch chooses the last."""
        if self.fused:
            return "fused"
        return "foreach" if self.foreach else "for-loop"


@dataclass(frozen=True)
class RunFacts:
    """How the loop runs: what ticks, in which order, under which flags, and for how long.

    Seconds of ``evaluation_s``, ``save_s`` and ``gc_s`` are those since the first step,
    as is ``wall_s``, the time that the program itself ran since then; ``gc_asked_s`` of them are collections
    that ``gc_location`` asks for. ``*_every`` are steps between two
    of a kind, ``None`` before two were seen. ``steps_total`` is the planned length where it is known,
    ``launch_steps`` how many one launch of the program makes, where that came to its own end.
    ``evaluation_records_graph`` is whether outputs in evaluation carry a graph, ``evaluation_forwards`` how
    many forwards one has, ``evaluation_rows`` the mean size of their first dimension, and
    ``evaluation_in_training_mode`` whether the model was in training mode in all of them, without
    gradients. ``evaluation_judges`` is whether it has a loader, or its lines say that it only looks at the
    model. ``debug`` names debugging aids left on (``anomaly``, ``profiler``, ``launch_blocking``,
    ``gradcheck``, ``distributed_debug``). ``nonfinite`` names what was NaN or infinite first (``loss`` or
    ``gradient``); ``finite_checks`` counts the steps in which that was looked for. Updates of a gradient
    scaler, and those that it skipped, are counted after the first 100 of a longer run; ``scaler_ms`` is its
    time per update. ``conv_fp32_precision`` is cuDNN's for float32 convolutions: ``tf32``, torch's default,
    or ``ieee``. ``own_profiler`` is where the program started a torch.profiler that goes on. Of a run
    counted in requests, ``requests_in_training_mode`` is whether a model was in any of them,
    ``requests_mode`` how much was recorded at most (``grad``, ``no_grad`` or ``inference_mode``), and
    ``requests_whole`` whether the time between them counts. ``requests_batch`` are samples of a request where
    a workload's are put together, ``requests_padding`` the share of these that is padding which sorting by
    length leaves out.
    """

    clock: str = "optimizer"
    period: int = 1
    backwards_per_step: float = 1.0
    samples_per_step: float | None = None
    sample_source: str | None = None
    own_autocast: bool = False
    own_scaler: bool = False
    own_compile: bool = False
    own_backward_transforms: bool = False
    own_profiler: Location | None = None
    deterministic: bool = False
    matmul_precision: str = "highest"
    conv_fp32_precision: str | None = None
    num_threads: int = 1
    sum_reduced_loss: bool | None = None
    steps_seen: int = 0
    steps_total: int | None = None
    launch_steps: int | None = None
    evaluation_s: float = 0.0
    save_s: float = 0.0
    epoch_s: float | None = None
    startup_s: float | None = None
    wall_s: float | None = None
    evaluations: int = 0
    evaluation_every: float | None = None
    evaluation_records_graph: bool | None = None
    evaluation_location: Location | None = None
    evaluation_forwards: float | None = None
    evaluation_rows: float | None = None
    evaluation_in_training_mode: bool | None = None
    evaluation_judges: bool | None = None
    saves: int = 0
    save_every: float | None = None
    save_location: Location | None = None
    log_calls_per_step: float = 0.0
    log_location: Location | None = None
    gc_s: float = 0.0
    gc_collections: int = 0
    gc_asked_s: float = 0.0
    gc_location: Location | None = None
    debug: tuple[str, ...] = ()
    debug_location: Location | None = None
    mkldnn_enabled: bool | None = None
    cudnn_benchmark: bool | None = None
    nonfinite: str | None = None
    nonfinite_step: int | None = None
    nonfinite_module: str | None = None
    finite_checks: int | None = None
    scaler_updates: int = 0
    scaler_skipped: int = 0
    scaler_on_bf16: bool | None = None
    scaler_ms: float | None = None
    requests_in_training_mode: bool | None = None
    requests_mode: str | None = None
    requests_whole: bool = False
    requests_batch: int | None = None
    requests_padding: float | None = None

    @property
    def serves(self) -> bool:
        """Whether a trained model answers requests."""
        return self.clock == "request"

    @property
    def training_steps(self) -> int | None:
        """Steps of the whole training: those planned, or else those that one launch makes by itself."""
        return self.launch_steps if self.steps_total is None else self.steps_total


@dataclass(frozen=True)
class Profile:
    """Everything known about a run. Rules and knobs see nothing else.

    ``window`` is what torch.profiler recorded, ``series`` the distribution of watched steps, ``watching``
    the share (0 to 1) that watching itself adds to a step, ``growth`` what the process takes more of.
    ``ranks`` are the processes of a distributed run, ``None`` for a single one, ``collectives`` what they
    exchanged as far as traces tell.
    ``line_calls`` are the lines of the program that take the most time in calls of torch, or repeat the
    most, ``gradients`` what a few backwards bring. ``denormals`` are those of a model on the CPU, where they
    are not flushed. ``served`` is how a run that is counted in requests answers them.
    """

    machine: Machine
    target_kind: str = "script"
    device: str = "cpu"
    phases: StepPhases | None = None
    loader: LoaderFacts | None = None
    roots: tuple[RootFacts, ...] = ()
    optimizers: tuple[OptimizerFacts, ...] = ()
    run: RunFacts | None = None
    memory: MemoryUse | None = None
    series: StepSeries | None = None
    window: Window | None = None
    replays: Replays = field(default_factory=Replays)
    rates: Rates | None = None
    hotspots: tuple[HotSpot, ...] = ()
    line_calls: tuple[LineCalls, ...] = ()
    gradients: GradientFacts | None = None
    syncs: tuple[SyncPoint, ...] | None = None
    compile: CompileFacts | None = None
    host: HostFacts | None = None
    ranks: tuple[RankFacts, ...] | None = None
    collectives: tuple[Collective, ...] = ()
    watching: float | None = None
    growth: Growth | None = None
    denormals: Denormals | None = None
    served: ServedFacts | None = None

    @property
    def serves(self) -> bool:
        """Whether a trained model answers requests."""
        return self.run is not None and self.run.serves

    @property
    def unit(self) -> Unit:
        """What the run is counted in."""
        return Unit.REQUEST if self.serves else Unit.STEP

    @property
    def peak_bytes(self) -> int:
        """Peak memory of the device where one was used, else of the process; 0 where it was not measured."""
        return 0 if self.memory is None else self.memory.device_peak_bytes or self.memory.host_peak_bytes
