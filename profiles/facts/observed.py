"""What the hooks saw of a run beside its steps: places, hot lines, memory, compilation, host, ranks."""

from dataclasses import dataclass

USER_LINE = "user_line "  # begins the name of a range that stands for a line of the user's


@dataclass(frozen=True)
class Location:
    """A place in the user's program."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class HotSpot:
    """A user line at which the training thread was met by sampling, outside the timed window.

    ``share`` (0 to 1) is its part of all samples of ``phase``; ``phase`` is a part of ``StepPhases``
    without ``_ms`` (``input_wait``, ``other``, ...). ``inner`` is whether backward called the line, as it
    does those of hooks and of the program's own functions, not the line backward. ``call`` is what most
    samples met there, in the program's own words: ``random.sample``, ``rows[index]``.
    """

    phase: str
    location: Location
    share: float
    inner: bool = False
    call: str = ""


@dataclass(frozen=True)
class Unread:
    """Results of one line of which at most half is read afterwards.

    ``calls`` gave them; ``share`` (0 to 1) is the part of the time of all calls of the line's phase that went
    into what is not read, and ``read`` the part of them that is. ``masked`` says whether zeros
    erase the rest, in place of an index that leaves it out. ``functions`` are those with the most such time.
    """

    calls: int
    share: float
    read: float
    functions: tuple[str, ...]
    masked: bool = False


@dataclass(frozen=True)
class Reordered:
    """What one line of a step computes, and another order of the same sums would compute with less.

    ``kind`` is what it is. Made of all pairs by broadcasting and then summed: ``product``, ``cosine``, and
    the distances ``square``, ``absolute`` and ``norm``. By its order: ``chain``, a product that only goes
    into another one, and ``einsum``, one of several factors. ``share`` (0 to 1) is the part of the time of
    all calls of the line's phase that it would spare, ``calls`` how many times, ``elements`` what the largest
    intermediate has, and ``kept`` the part of the work that is left, multiplying and writing; 0 where it is
    not counted.
    """

    kind: str
    share: float
    calls: int
    elements: int
    kept: float = 0.0


@dataclass(frozen=True)
class LineCalls:
    """What one line of the program has torch compute in a step, met by following its tensors.

    ``functions`` are those with the most time, ``calls`` all calls. Shares (0 to 1) are of the time of all
    calls in the line's ``phase`` (as in ``HotSpot``). ``repeated`` calls had the function and the arguments
    of an earlier call, ``repeated_across`` of them of one in the step before, and none in this;
    ``repeated_functions`` are those with the most time of them. ``turns`` is how often the line called the
    function that it called most, and ``chain`` how many of these calls the longest sequence holds in which
    each needs the result of the one before. ``weights`` counts the parameters that it used and that get
    gradients, ``frozen`` those that get none and were the same in the step before, ``listed`` the numbers of
    Python lists that it made tensors of. ``unread`` is what of its results nothing reads,
    ``reordered`` what another order of its sums would spare.
    ``graphed`` says whether they record a graph, ``parametrized`` whether they are those of
    ``torch.nn.utils.parametrize``.
    """

    location: Location
    phase: str
    functions: tuple[str, ...]
    calls: int
    share: float
    repeated: int
    repeated_across: int
    repeated_share: float
    turns: int
    chain: int
    weights: int = 0
    frozen: int = 0
    listed: int = 0
    graphed: bool = False
    parametrized: bool = False
    repeated_functions: tuple[str, ...] = ()
    unread: Unread | None = None
    reordered: Reordered | None = None


@dataclass(frozen=True)
class SyncPoint:
    """A place that made the host wait for the device (or would, on one).

    ``kind`` is the operation (``item``, ``cpu``, ``nonzero``, ``synchronize``, ``empty_cache``, ...).
    ``where`` is ``user``, ``optimizer`` or ``loader``. ``blocked_ms`` is host time inside the call and
    ``idle_ms`` device idle time that starts at it, both per step; ``None`` where there is no device.
    """

    kind: str
    location: Location | None
    count_per_step: float
    blocked_ms: float | None = None
    idle_ms: float | None = None
    where: str = "user"


LEAST_DENORMAL = 0.01  # of one tensor's elements; set by experiment


@dataclass(frozen=True)
class Denormals:
    """Numbers too small to be normal (below 1.2e-38 in float32) in what a CPU computes with.

    ``name`` is the tensor with the largest share of them, ``share`` (0 to 1) that share by samples, ``kind``
    what it is (``parameter``, ``gradient``, ``state``). ``tensors_share`` is the share of all parameters, by
    elements, that have some in themselves, their gradient or their state. ``slowdown`` is the time of a
    product with that tensor over one with zeros in their place, as measured; ``update_slowdown`` the same of
    what an update does (decay, a root) with the worst parameter or state: processors differ in which is slow.
    """

    name: str
    share: float
    kind: str
    tensors_share: float
    slowdown: float
    update_slowdown: float = 1.0

    @property
    def telling(self) -> bool:
        """Whether there are enough of them for a processor to show it."""
        return self.share >= LEAST_DENORMAL


@dataclass(frozen=True)
class StepSeries:
    """Distribution of the clean steps of the watched window, in milliseconds of wall time.

    ``outliers`` are steps beyond 3 robust sigma above the median, ``outlier_flags`` what they had that
    others had not (``gc``, ``shape``, ``save``, ...). ``flagged`` counts steps set apart, by flag.
    """

    steps: int
    median_ms: float
    mean_ms: float
    p5_ms: float
    p95_ms: float
    outliers: int = 0
    outlier_flags: tuple[tuple[str, int], ...] = ()
    flagged: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class MemoryUse:
    """Memory of the process (host) and of the allocator (device). Bytes, unless said.

    Categories are at the peak of one step: ``activation_bytes`` is what the step adds to parameters,
    gradients and optimizer state. ``limit_bytes`` is the device's total, or the host's with its cgroup.
    ``growth_bytes_per_step`` is a robust slope over ``growth_steps`` steps, ``growth_bytes`` the rise over
    them. ``*_faults_per_step`` are page faults of this process. ``system_share`` is system time over all
    CPU time of this process in the watched window.
    """

    host_peak_bytes: int
    device_peak_bytes: int | None = None
    device_total_bytes: int | None = None
    parameter_bytes: int | None = None
    gradient_bytes: int | None = None
    optimizer_bytes: int | None = None
    activation_bytes: int | None = None
    other_bytes: int | None = None
    device_reserved_bytes: int | None = None
    allocation_retries: int | None = None
    host_limit_bytes: int | None = None
    host_used_share: float | None = None
    growth_steps: int = 0
    growth_bytes: int | None = None
    growth_bytes_per_step: float | None = None
    growth_monotone: bool | None = None
    retained_graph_nodes_per_step: float | None = None
    retained_name: str | None = None
    retained_location: Location | None = None
    swapped_in_bytes: int | None = None
    major_faults_per_step: float | None = None
    minor_faults_per_step: float | None = None
    system_share: float | None = None


@dataclass(frozen=True)
class GraphBreak:
    """A place where dynamo gave up tracing and returned to Python."""

    reason: str
    location: Location | None = None
    count: int = 1


@dataclass(frozen=True)
class CompileFacts:
    """What the program's own ``torch.compile`` did.

    ``frames`` were seen and ``compiled`` of them compiled. ``breaks`` are those of the whole run;
    ``recompiles_after_warmup`` counts compilations after the first ten steps. ``seconds`` is the wall time
    of all compilations. ``eager_step_ms`` is the step with every graph skipped, by replay.
    ``recompile_reasons`` are guards as dynamo words them, ``recompile_location`` the user's line whose
    value the last of them is about.
    """

    frames: int = 0
    compiled: int = 0
    graphs: int = 0
    seconds: float = 0.0
    breaks: tuple[GraphBreak, ...] = ()
    breaks_per_step: float | None = None
    recompiles_after_warmup: int = 0
    recompile_seconds: float = 0.0
    recompile_reasons: tuple[str, ...] = ()
    recompile_location: Location | None = None
    limit_reached: bool = False
    cudagraphs_skipped: str | None = None
    failures: tuple[str, ...] = ()
    eager_step_ms: float | None = None


@dataclass(frozen=True)
class Habit:
    """Something that a program does with its own process.

    ``kind`` is ``folder`` (it goes to another, ``detail``), ``sigterm`` (it has a handler), ``clock_end``
    (the wall clock says when it ends) or ``clock_rate`` (it says how fast it learns).
    """

    kind: str
    location: Location
    detail: str = ""


@dataclass(frozen=True)
class GradientFacts:
    """What backwards of a few steps bring, followed node by node. Shares (0 to 1) are of the time of all.

    ``per_update`` are backwards for each update. ``again`` of them, for each update, went through nodes of
    an earlier backward of the same update and added to the same gradients; ``again_share`` is the time of
    those nodes, ``again_location`` the line that calls them. ``vain_share`` is the time of nodes that led
    only to parameters whose gradients were dropped before they were used, in backwards that served another
    update; ``vain_location`` is the line that calls these, ``vain_module`` the class of the module that has
    the parameters.
    """

    per_update: float
    again: float = 0.0
    again_share: float = 0.0
    again_location: Location | None = None
    vain_share: float = 0.0
    vain_location: Location | None = None
    vain_module: str = ""


@dataclass(frozen=True)
class HostFacts:
    """How the machine served the process during the watched window. Shares from 0 to 1.

    ``cpu_per_wall`` is CPU time of this process (all threads) over wall time outside input wait.
    ``other_cpus`` is CPU used by processes that are not of this run, in CPUs. ``one_thread_step_ms`` is the
    step with a single thread, by replay, where threads seem to collapse. ``cpus_given`` are those of the
    affinity at the start of the process, ``cpus_left`` those of now, ``bound_at`` where it was changed last.
    ``training_thread_cpus`` are the CPUs that the thread that trains kept busy, ``threads`` those of other
    Python threads by name and ``children`` those of processes that the program started, by command.
    ``habits`` is what the program does with its own process.
    """

    cpu_per_wall: float | None = None
    other_cpus: float | None = None
    throttled_share: float | None = None
    clock_share: float | None = None
    gpu_temperature_c: float | None = None
    one_thread_step_ms: float | None = None
    bound_to_node: bool | None = None
    cpus_given: int | None = None
    cpus_left: int | None = None
    bound_at: Location | None = None
    training_thread_cpus: float | None = None
    threads: tuple[tuple[str, float], ...] = ()
    children: tuple[tuple[str, float], ...] = ()
    habits: tuple[Habit, ...] = ()


@dataclass(frozen=True)
class RankFacts:
    """One process of a distributed run; times per step in milliseconds.

    ``communication_ms`` is all collective time, ``exposed_ms`` what no compute overlaps.
    ``parameters_reduced`` are the bytes per update over the bytes of all parameters.
    ``duplicate_share`` is the share of its samples that another rank delivered in the same epoch.
    """

    rank: int
    step_ms: float
    compute_ms: float = 0.0
    communication_ms: float = 0.0
    exposed_ms: float = 0.0
    idle_ms: float = 0.0
    input_wait_ms: float = 0.0
    wait_ms: float = 0.0
    communication_bytes: int | None = None
    parameters_reduced: float | None = None
    backend: str | None = None
    device_tensors: bool | None = None
    memory_bytes: int | None = None
    memory_share: float | None = None
    phases_ms: tuple[tuple[str, float], ...] = ()
    step_series_ms: tuple[float, ...] = ()
    duplicate_share: float | None = None

    def share(self, part: str) -> float:
        """Share (0 to 1) of this rank's step that ``communication``, ``exposed``, ``wait``, ... takes."""
        if self.step_ms <= 0:
            return 0.0
        taken: float = getattr(self, f"{part}_ms")
        return min(1.0, max(0.0, taken / self.step_ms))
