"""Operator calls of a trace: who called whom, in which step and phase, and for how long."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from advisor.profiles.facts.observed import Location
from advisor.profiles.traces.event_cost import EventCost, Parts, event_cost
from advisor.profiles.traces.launches import find, launches_of
from advisor.profiles.traces.nesting import Flags, Host, Ints, nest
from advisor.profiles.traces.signatures import Signature, Signatures, concrete, signatures_of
from advisor.profiles.traces.steps import Steps, steps_of
from advisor.profiles.traces.trace import Numbers, Trace, narrow
from advisor.profiles.traces.user_functions import places_of
from advisor.profiles.traces.work import Work, work_of

PHASES = ("other", "forward", "backward", "optimizer", "loader")
OTHER, FORWARD, BACKWARD, OPTIMIZER, LOADER = range(5)

NODE = "autograd::engine::evaluate_function"
RECOMPUTING = "CheckpointFunctionBackward"
CLEARING = "Optimizer.zero_grad"
MARKERS = (
    ("Optimizer.", OPTIMIZER),
    ("enumerate(DataLoader)#", LOADER),
    ("advisor_loader", LOADER),
    ("advisor_forward", FORWARD),
    ("DistributedDataParallel.forward", FORWARD),
    ("advisor_backward", BACKWARD),
    (NODE, BACKWARD),
    ("advisor_optimizer", OPTIMIZER),
    ("advisor_step#", None),
    ("advisor_", OTHER),
)  # fmt: skip
"""What puts all that runs inside it into a phase, by the beginning of its name; the first that fits."""

KERNEL_OF_COMPILER = re.compile(r"triton_|cpp_fused|graph_\d+_cpp_fused")
WAITING = re.compile(
    r"(cuda|hip)(Device|Stream|Event)Synchronize|cu(Ctx|Stream|Event)Synchronize|(cuda|hip)(Memcpy|Memset)"
    r"|hipMemcpyWithStream|cuMemcpy(DtoH|HtoD)(_v2)?"
)
"""Calls of a device's runtime that return when the device is done."""

BACK = "Memcpy DtoH"
EXCHANGING = ("c10d::", "record_param_comms", "nccl:", "gloo:", "mpi:", "ucc:")

Times = NDArray[np.float64]
Values = Numbers


@dataclass(frozen=True)
class Calls:
    """Host events of a trace as ``host`` orders them, one entry each in all arrays.

    Attributes:
        step: The step an event began in, or -1.
        op: Whether it is an operator.
        owner: The innermost operator around it, or -1.
        marking: Whether it is what puts all inside it into a phase.
        phase: Position in ``PHASES``.
        top: Whether it is an operator called from Python or by a node of the autograd graph.
        cost: Of recording one event, and how much slower everything was meanwhile.
        kernels: Events of devices, as positions in the trace.
        launched_by: For each of those the host event that launched it, or -1.
        kernel_owner: For each of those its operator, or -1.
        kernel_step: For each of those the step that launched it.
    """

    trace: Trace
    host: Host
    steps: Steps
    step: Values
    op: Flags
    owner: Ints
    marking: Flags
    phase: NDArray[np.int8]
    top: Flags
    cost: EventCost
    kernels: Ints
    launched_by: Ints
    kernel_owner: Ints
    kernel_step: Ints

    @cached_property
    def name(self) -> Numbers:
        """Positions among the trace's names."""
        return self.trace.name[self.host.rows]

    @cached_property
    def begin_us(self) -> Times:
        """When each event began."""
        return self.trace.begin_us[self.host.rows]

    @cached_property
    def end_us(self) -> Times:
        """When each event ended."""
        return self.begin_us + self.trace.duration_us[self.host.rows]

    @cached_property
    def thread(self) -> Numbers:
        """On which thread."""
        return self.trace.thread[self.host.rows]

    @property
    def detail(self) -> Numbers:
        """Of which detail; the last, -1, stands for none."""
        return self.trace.detail[self.host.rows]

    @property
    def sequence(self) -> Numbers:
        """The number that links an operator to its node of the autograd graph; negative without one."""
        return self.trace.sequence[self.host.rows]

    @property
    def recording(self) -> Flags:
        """Whether it has such a number as what made the node."""
        return self.trace.recording[self.host.rows] & (self.sequence >= 0)

    @cached_property
    def signatures(self) -> Signatures:
        """Of the operators within steps."""
        return signatures_of(self.trace, self.detail[self.op & (self.step >= 0)])

    @cached_property
    def signature(self) -> Numbers:
        """The number of each event's signature; 0 without one."""
        return self.signatures.number[self.detail]

    @cached_property
    def work(self) -> Work:
        """What each operator computes and moves."""
        return work_of(self)

    @cached_property
    def nodes(self) -> Ints:
        """The innermost evaluation of a node of the autograd graph around each event, or -1."""
        return self.host.nearest(self.op & self.named(lambda name: name.startswith(NODE)))

    @property
    def self_us(self) -> Times:
        """Of operators, on the host, less the profiler's own cost; zero for others."""
        return _self_us(self.trace.duration_us[self.host.rows], self.op, self.owner, self.cost.us)

    @cached_property
    def kernel_us(self) -> Times:
        """Device time that each operator launched itself."""
        owned = self.kernel_owner >= 0
        spent = self.trace.duration_us[self.kernels[owned]]
        return np.bincount(self.kernel_owner[owned], spent, len(self.host)).astype(np.float64, copy=False)

    @cached_property
    def spent_self_us(self) -> Times:
        """Self time where it counts: on the device if there is one, but on the host for loading data."""
        if not len(self.kernels):
            return self.self_us
        loads = self.phase == LOADER
        return np.where(loads, self.self_us, self.kernel_us) if loads.any() else self.kernel_us

    @cached_property
    def spent_us(self) -> Times:
        """The same for an event with all inside it."""
        return self.host.sum_up(self.spent_self_us)

    @cached_property
    def places(self) -> tuple[Values, list[Location]]:
        """For each event the number of a user function, or -1, and those functions.

        In backward it is the function that made the node, as far as sequence numbers tell.
        """
        own, places = places_of(self.trace, self.host)
        if not places:
            return own, places
        sequence = self.sequence
        made = np.flatnonzero(self.op & self.recording & (own >= 0) & (self.nodes < 0))
        backward = np.flatnonzero(self.nodes >= 0)
        linked = find(sequence[made] + 1, own[made], sequence[self.nodes[backward]] + 1)
        own[backward] = np.where(linked >= 0, linked, own[backward])
        return own, places

    @cached_property
    def waiting(self) -> Ints:
        """Calls within steps that return when the device is done."""
        runtime = self.trace.of("cuda_runtime", "cuda_driver")[self.host.rows]
        waiting = runtime & self.named(lambda name: WAITING.fullmatch(name) is not None)
        copying = self.launched_by[
            self.kernels_named(lambda name: name.startswith(BACK) and "Pageable" in name)
        ]
        waiting[copying[copying >= 0]] = True
        return np.flatnonzero(waiting & (self.step >= 0))

    @cached_property
    def exchanging(self) -> Flags:
        """Which operators only exchange data with other processes."""
        return self.op & self.named(lambda name: name.startswith(EXCHANGING))

    @cached_property
    def told(self) -> list[int]:
        """Names of all but Python functions, of which there may be very many."""
        return _told(self.trace, self.host)

    def named(self, wanted: Callable[[str], bool]) -> Flags:
        """Which events have such a name."""
        names = self.trace.names
        flags = np.zeros(len(names), dtype=np.bool_)
        flags[[at for at in self.told if wanted(names[at])]] = True
        return flags[self.name]

    def kernels_named(self, wanted: Callable[[str], bool]) -> Flags:
        """Which events of devices have such a name."""
        names = self.trace.name[self.kernels]
        flags = np.zeros(len(self.trace.names), dtype=np.bool_)
        used = np.flatnonzero(np.bincount(names)).tolist()
        flags[[at for at in used if wanted(self.trace.names[at])]] = True
        return flags[names]

    def among(self, names: frozenset[str] | tuple[str, ...]) -> Flags:
        """Which events have one of these names."""
        return self.named(lambda name: name in names)

    def signature_of(self, position: int) -> Signature:
        """The signature of one operator, with the arguments that are no tensors."""
        signature = self.signatures.distinct[int(self.signature[position])]
        detail = int(self.trace.detail[self.host.rows[position]])
        return replace(signature, concrete=concrete(self.trace.details[detail])) if detail >= 0 else signature

    def place(self, position: int) -> Location | None:
        """The user function of one event."""
        numbers, places = self.places
        number = int(numbers[position])
        return places[number] if number >= 0 else None

    @property
    def usual_step_ms(self) -> float:
        """The step without the few that saved, evaluated or began an epoch; the mean where a device leads."""
        return self.step_ms if len(self.kernels) else self.steps.usual_ms

    @property
    def step_ms(self) -> float:
        """Mean step; where the device ends later than the host's last step, until it does."""
        if not len(self.kernels):
            return self.steps.mean_ms
        last = float(self.trace.end_us[self.kernels].max())
        return max(self.steps.mean_ms, self.per_step_ms(last - float(self.steps.begin_us[0])))

    def per_step_ms(self, us: float) -> float:
        """Microseconds of the whole window as milliseconds per step."""
        return us / 1000 / self.steps.count


def calls_of(
    trace: Trace,
    steps: int | None = None,
    clean_step_ms: float | None = None,
    parts: Parts | None = None,
) -> Calls | None:
    """Everything about the operators of a trace, ``None`` if it holds none.

    Args:
        trace: Of one process.
        steps: How many there are, if that is known.
        clean_step_ms: Mean step without the profiler; without it the cost of recording is not corrected for.
        parts: Parts of clean and of recorded steps, where the taps timed both.
    """
    found = steps_of(trace, steps)
    if found is None:
        return None
    host = nest(trace)
    name, begin = trace.name[host.rows], trace.begin_us[host.rows]
    op = trace.of("cpu_op")[host.rows]
    owner = host.nearest(op)
    launches = launches_of(trace, host, owner, op)
    found = launches.begun(found, float(begin[op].min(initial=np.inf)))
    launches, kernel_step = launches.within(found, trace, host)
    step = narrow(found.of(begin))
    stands_for_others = np.zeros(len(trace.names), dtype=np.bool_)
    codes, clears = np.full(len(trace.names), -1, dtype=np.int8), np.zeros(len(trace.names), dtype=np.bool_)
    for at in _told(trace, host):
        stands_for_others[at] = _stands_for_others(trace.names[at])
        codes[at] = _marked(trace.names[at])
        clears[at] = trace.names[at].startswith(CLEARING)
    transparent, codes = stands_for_others[name], codes[name]
    marking = (codes >= 0) & (op | trace.of("user_annotation")[host.rows])
    phase = _phases(host, np.where(marking, codes, -1), begin, step, clears[name])
    cost = EventCost()
    if clean_step_ms:
        inside = np.bincount(phase[step >= 0], minlength=len(PHASES)) / found.count
        events = dict(zip(PHASES, inside.tolist(), strict=True))
        cost = event_cost(found.usual_ms, clean_step_ms, events, None if len(launches.kernels) else parts)
    return Calls(
        trace=trace,
        host=host,
        steps=found,
        step=step,
        op=op,
        owner=owner,
        marking=marking,
        phase=phase,
        top=op & ~transparent & (host.nearest(op & ~transparent) < 0),
        cost=cost,
        kernels=launches.kernels,
        launched_by=launches.by,
        kernel_owner=launches.owner,
        kernel_step=kernel_step,
    )


def _self_us(duration: Times, op: Flags, owner: Ints, cost_us: float) -> Times:
    """Time of operators less that of operators called, less the cost of recording what ran inside.

    An event begins when its recording is nearly done, so that most of the cost lies in what is around it.
    """
    inside = owner >= 0
    called = inside & op
    left = duration - np.bincount(owner[called], duration[called], len(duration))
    if cost_us:
        left -= cost_us * np.bincount(owner[inside], minlength=len(duration))
    left[~op] = 0.0
    return np.maximum(left, 0.0, out=left)


def _told(trace: Trace, host: Host) -> list[int]:
    used = np.zeros(len(trace.names), dtype=np.bool_)
    used[trace.name[host.rows[~trace.of("python_function")[host.rows]]]] = True
    return np.flatnonzero(used).tolist()


def _stands_for_others(name: str) -> bool:
    """Whether an operator is only around others: a node of the graph, a function, a region."""
    return name.startswith(("autograd::", "torch::autograd::", "struct torch::")) or (
        "::" not in name and KERNEL_OF_COMPILER.match(name) is None
    )


def _phases(
    host: Host, marked: NDArray[np.int8], begin: Times, step: Values, clears: Flags
) -> NDArray[np.int8]:
    """The innermost marker's phase. What no marker covers is forward if backward comes next in its step.

    Gradients may be cleared between the two.
    """
    nearest = np.where(marked >= 0, np.arange(len(host)), host.nearest(marked >= 0))
    phase = np.where(nearest >= 0, marked[nearest], -1)
    unmarked = np.flatnonzero(phase < 0)
    markers = np.flatnonzero((marked > OTHER) & (step >= 0) & ~clears)
    if not (marked[markers] == BACKWARD).any():
        phase[unmarked] = FORWARD
        return phase.astype(np.int8)
    markers = markers[np.argsort(begin[markers], kind="stable")]
    following = np.searchsorted(begin[markers], begin[unmarked], side="right")
    after, before = markers[np.minimum(following, len(markers) - 1)], markers[np.maximum(following - 1, 0)]
    towards = (following < len(markers)) & (step[after] == step[unmarked]) & (marked[after] == BACKWARD)
    if (marked[markers] == FORWARD).any():
        towards &= (marked[before] == FORWARD) & (step[before] == step[unmarked])
    phase[unmarked] = np.where(towards, FORWARD, OTHER)
    return phase.astype(np.int8)


def _marked(name: str) -> int:
    """The phase that this name marks, -1 if none."""
    code = next((code for prefix, code in MARKERS if name.startswith(prefix)), None)
    return -1 if code is None else code
