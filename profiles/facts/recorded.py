"""What a torch.profiler window showed: operators, patterns among them, and the device's timeline.

Times are milliseconds per step, corrected for the profiler's own cost per event.
"""

from dataclasses import dataclass, field, replace

from advisor.profiles.facts.observed import Location


@dataclass(frozen=True)
class OpCost:
    """One operator with one set of input shapes and types.

    ``phase`` is ``forward``, ``backward``, ``optimizer``, ``loader`` or ``other``. ``self_ms`` is host self
    time per step, or device time of its kernels where there is a device. ``flops`` and ``bytes`` are per
    call, from the shapes; ``None`` where no formula is known. ``dtype`` is the first tensor input's
    (``float32``, ``bfloat16``, ...). ``dtypes`` stand beside ``shapes``, ``None`` for what is no tensor; a
    trace does not tell them of tensors in a list, which ``aten::cat`` takes. ``location`` is the innermost
    user function, where stacks were taken. ``arithmetic`` is what kernels of a device multiplied float32
    numbers in, as far as their names tell: ``float32`` or ``float32_medium`` (TF32).
    """

    name: str
    calls: float
    self_ms: float
    total_ms: float
    phase: str = "other"
    shapes: tuple[tuple[int, ...], ...] = ()
    dtype: str | None = None
    flops: float | None = None
    bytes: float | None = None
    location: Location | None = None
    dtypes: tuple[str | None, ...] = ()
    arithmetic: str | None = None


@dataclass(frozen=True)
class Repetition:
    """The same operators repeated one after another, such as by indexing in a Python loop.

    ``ops`` is the repeated part, ``count`` how often it comes in a row, ``times`` such rows per step,
    ``phase`` as in ``OpCost``.
    """

    ops: tuple[str, ...]
    count: int
    times: float
    ms: float
    location: Location | None = None
    phase: str | None = None


@dataclass(frozen=True)
class Attention:
    """Attention written as matmul, softmax, matmul, in forward.

    ``shape`` is batch, heads, queries, keys and the width of a head; empty without recorded shapes. Attention
    over three dimensions counts as one head. ``ms`` is from the first product to the second,
    ``fused_ms`` was timed at these shapes.
    """

    shape: tuple[int, ...]
    count: float
    ms: float
    fused_ms: float | None = None
    dtype: str | None = None
    location: Location | None = None


@dataclass(frozen=True)
class PointwiseChains:
    """Runs of at least two elementwise or normalising operators over tensors of one size.

    ``bytes_moved`` is what they read and write one by one, ``bytes_fused`` what one kernel would.
    """

    ms: float
    chains: float
    longest: tuple[str, ...]
    bytes_moved: float
    bytes_fused: float
    location: Location | None = None


@dataclass(frozen=True)
class Copies:
    """Copies of one direction (``h2d``, ``d2h``, ``d2d``, ``memset``) on the device, per step.

    ``overlapped`` is the share of their time that compute covers. ``pageable`` and ``synchronous`` are
    shares of the copied bytes. ``like`` is the largest group of equal copies with gaps below 1 ms, and
    ``like_gap_ms`` the gaps within it.
    """

    direction: str
    count: float
    ms: float
    bytes: float
    overlapped: float = 0.0
    pageable: float | None = None
    synchronous: float | None = None
    largest_synchronous_bytes: int = 0
    like: int = 0
    like_gap_ms: float = 0.0


@dataclass(frozen=True)
class Gap:
    """Device idle between two kernels; ``during`` is what the host ran meanwhile."""

    ms: float
    during: str = ""
    location: Location | None = None


@dataclass(frozen=True)
class DeviceTime:
    """Where the time of the busiest device goes, in milliseconds per step.

    From its first event to the end of its last: ``computing_ms`` is when kernels other than those of
    communication ran, or memory was filled; ``exposed_communication_ms`` when nothing but communication and
    copies did, ``exposed_copies_ms`` when nothing but copies did; ``idle_ms`` is the rest of ``total_ms``,
    and ``idle`` divides that by cause: ``launch``, ``input``, ``synchronization``, ``after_last_kernel``,
    ``starting`` (calls of the runtime that load or open something), ``before_recording`` (what it was to do
    was the first work of its stream and had been launched: it did what was launched before), ``device`` (the
    same of later work), ``other`` (no launch is known).
    """

    total_ms: float
    computing_ms: float
    exposed_communication_ms: float
    exposed_copies_ms: float
    idle_ms: float
    idle: tuple[tuple[str, float], ...] = ()

    def share(self, part: str) -> float:
        """Share (0 to 1) of ``total_ms`` of a part: ``computing``, ``idle`` or another."""
        spent: float = getattr(self, f"{part}_ms")
        return spent / self.total_ms if self.total_ms > 0 else 0.0

    @property
    def earlier_ms(self) -> float:
        """How long it did what was launched before the recording, of which there are no events."""
        return dict(self.idle).get("before_recording", 0.0)

    @property
    def recorded(self) -> "DeviceTime":
        """The same without that time, which is not idle but unknown."""
        earlier_ms = self.earlier_ms
        return replace(
            self,
            total_ms=self.total_ms - earlier_ms,
            idle_ms=self.idle_ms - earlier_ms,
            idle=tuple(each for each in self.idle if each[0] != "before_recording"),
        )


@dataclass(frozen=True)
class Product:
    """Matrix products of (m, k) and (k, n) of one operator, type and size, ``calls`` of them per step.

    ``kernel_us`` is what they take together on the device per step, ``tflops`` their mean rate.
    """

    op: str
    m: int
    n: int
    k: int
    batch: int
    dtype: str
    calls: float
    kernel_us: float
    tflops: float


@dataclass(frozen=True)
class Collective:
    """Exchanges of one kind (``all_reduce``, ``all_gather``, ...) and size among ``ranks``, per step.

    ``ms`` is their time on this rank, ``wait_ms`` the part of it before the last rank came; ``None`` where
    no traces of other ranks tell. ``bytes`` is the whole tensor of one exchange, ``bus_bytes_per_s`` its bus
    bandwidth as nccl-tests define it, without the waiting. ``overlapped`` is the share of ``ms`` in which the
    rank computed, ``overlapped_in_turn`` that of the first, the second, ... of a step, as of the buckets of
    gradients; empty where steps differ in their number, or have one or very many.
    """

    kind: str
    calls: float
    ms: float
    bytes: int | None = None
    ranks: int | None = None
    wait_ms: float | None = None
    bus_bytes_per_s: float | None = None
    overlapped: float = 0.0
    overlapped_in_turn: tuple[float, ...] = ()


@dataclass(frozen=True)
class KernelCost:
    """One kernel as one operator at one place launched it, ``calls`` and ``us`` of device time per step.

    ``kind`` is what it does, ``op`` the operator (empty where none is known, as with graphs). ``flops_per_s``
    and ``bytes_per_s`` are what the operator works and moves by its shapes, over the time of all its kernels;
    ``None`` where no formula is known. ``dtype`` is what it multiplies in, in the words of ``Rates``.
    """

    name: str
    kind: str
    calls: float
    us: float
    op: str = ""
    location: Location | None = None
    dtype: str | None = None
    flops_per_s: float | None = None
    bytes_per_s: float | None = None


@dataclass(frozen=True)
class DeviceFacts:
    """The device's timeline, per step. Shares are of the step.

    ``launch_share`` is idle between kernels that waits for launches, ``short_kernels`` the share of kernels
    shorter than their launch, ``full_queue`` whether launches run far ahead of the device.
    ``layout_ms`` is time of layout-change kernels, ``fill_copy_ms`` that of filling on the host and copying
    and ``fill_location`` where most of that happens. ``busy_share`` and ``idle_share`` leave out what fills
    the queue in the first step and drains it in the last; ``time`` is of the whole window. ``kernels_ms`` is
    the time of kernels by what they do, ``products`` are the largest matrix products, ``heaviest`` the
    kernels that take most time. ``captures`` counts graphs that are captured, whose kernels do not run.
    """

    busy_share: float
    idle_share: float
    kernels: float
    mean_kernel_us: float
    launch_share: float = 0.0
    short_kernels: float = 0.0
    full_queue: bool = False
    layout_ms: float = 0.0
    fill_copies: float = 0.0
    fill_copy_ms: float = 0.0
    busy_p5: float | None = None
    busy_p95: float | None = None
    copies: tuple[Copies, ...] = ()
    gaps: tuple[Gap, ...] = ()
    fill_location: Location | None = None
    time: DeviceTime | None = None
    kernels_ms: tuple[tuple[str, float], ...] = ()
    products: tuple[Product, ...] = ()
    heaviest: tuple[KernelCost, ...] = ()
    captures: float = 0.0

    def copy(self, direction: str) -> Copies | None:
        """The copies of one direction, if there were any."""
        return next((each for each in self.copies if each.direction == direction), None)


@dataclass(frozen=True)
class Window:
    """One recorded window of a few steps.

    ``step_ms`` is its mean step, ``clean_step_ms`` that of the watched window before. ``overhead`` is
    the share that recording added to a step. ``residual`` is the share of a clean step by which the
    corrected times miss it: a claim from this window smaller than twice that is not made.
    ``compute_ms`` sums self times of all operators in forward, backward and optimizer.
    ``dispatches`` counts operators called from Python or autograd directly, per step, without those that
    make its batch. ``recompute_ms``
    is forward work repeated inside backward (activation checkpointing), ``cast_ms`` the time of dtype
    conversions, ``zero_ms`` that of clearing gradients by writing zeros. ``corrected_step_ms`` is the
    recorded step without what was taken off for the profiler. ``loader`` is the class of the iterator that
    the DataLoader's ranges name; empty without such a range. ``work`` is the arithmetic of a step in FLOP by
    the type in which it is done, what is recomputed in backward left out. ``wrapped`` is whether a range
    names one of torch's own ways to train on several ranks.
    """

    steps: int
    step_ms: float
    clean_step_ms: float | None
    overhead: float | None
    residual: float
    events_per_step: float
    compute_ms: float
    dispatches: float = 0.0
    with_shapes: bool = True
    with_stacks: bool = False
    ops: tuple[OpCost, ...] = ()
    repetitions: tuple[Repetition, ...] = ()
    attentions: tuple[Attention, ...] = ()
    pointwise: PointwiseChains | None = None
    recompute_ms: float = 0.0
    cast_ms: float = 0.0
    zero_ms: float = 0.0
    single_tensor_updates: bool | None = None
    device: DeviceFacts | None = None
    corrected_step_ms: float | None = None
    loader: str = ""
    work: tuple[tuple[str, float], ...] = ()
    wrapped: bool = False
    notes: tuple[str, ...] = field(default=())

    def ms_of(self, *names: str, dtype: str | None = None, phase: str | None = None) -> float:
        """Self time per step of the named operators, of one dtype and phase if given."""
        return sum(
            op.self_ms
            for op in self.ops
            if op.name in names and dtype in (None, op.dtype) and phase in (None, op.phase)
        )
