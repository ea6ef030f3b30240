"""The device's timeline: how busy it is, what its gaps wait for, and what makes the host wait for it."""

import itertools
import re
from collections import defaultdict

import numpy as np

from advisor.profiles.facts.observed import Location, SyncPoint
from advisor.profiles.facts.recorded import DeviceFacts, Gap
from advisor.profiles.traces.calls import LOADER, OPTIMIZER, Calls, calls_of
from advisor.profiles.traces.device.copies import copies_of, is_copy
from advisor.profiles.traces.device.device_time import device_time
from advisor.profiles.traces.device.kernel_costs import kernel_costs
from advisor.profiles.traces.device.kernels import kernels_ms
from advisor.profiles.traces.device.products import products
from advisor.profiles.traces.flops import VIEWS
from advisor.profiles.traces.start_up_calls import starting
from advisor.profiles.traces.timeline import LOADING, Timeline
from advisor.profiles.traces.trace import Trace

MOST_GAPS = 20
FAR_AHEAD = 10  # kernels launched and not begun, from where launches hold nothing up; set by experiment
STEPS_FOR_SPREAD = 5

LAYOUT = re.compile(
    r"nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw|convertTensor|tensorTransform|batched_transpose_\d",
    re.IGNORECASE,
)
CAPTURES = frozenset(f"{runtime}StreamBeginCapture" for runtime in ("cuda", "hip"))
SAYS_NOTHING = ("advisor_", "ProfilerStep#", "DistributedDataParallel.", "## ")
"""Beginnings of annotations around so much that they do not say what the host did in a gap."""

FILLS = frozenset(
    f"aten::{name}"
    for name in (
        "zeros", "ones", "full", "rand", "randn", "randint", "randperm", "arange", "linspace", "eye",
        "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "fill_", "zero_", "normal_",
        "uniform_", "bernoulli_", "random_", "tril_indices", "scalar_tensor",
    )
)  # fmt: skip
MOVES = ("aten::to", "aten::copy_", "aten::_to_copy", "aten::type_as")
KINDS = {
    "aten::item": "item", "aten::_local_scalar_dense": "item", "aten::is_nonzero": "bool",
    "aten::equal": "equal", "aten::allclose": "equal", "cudaFree": "empty_cache", "hipFree": "empty_cache",
}  # fmt: skip
"""What the user wrote, where the operator is called otherwise."""


def device_facts(calls: Calls) -> DeviceFacts | None:
    """Facts of the busiest device, ``None`` where no event of a device was recorded."""
    timeline = Timeline.of(calls)
    if timeline is None:
        return None
    length = max(float(timeline.step_begins[-1] - timeline.step_begins[0]), 1e-9)
    kernels = calls.trace.duration_us[timeline.rows[timeline.is_kernel]]
    gaps = timeline.gaps
    spread = _spread(timeline)
    fills, fill_us, fill_location = _fills(calls)
    return DeviceFacts(
        busy_share=timeline.computing.within(*timeline.step_begins[[0, -1]].tolist()).length / length,
        idle_share=gaps.length / length,
        kernels=len(kernels) / calls.steps.count,
        mean_kernel_us=float(kernels.mean()) if len(kernels) else 0.0,
        launch_share=timeline.idle_by_cause_us(gaps)["launch"] / length,
        short_kernels=_short_kernels(timeline),
        full_queue=_full_queue(timeline),
        layout_ms=calls.per_step_ms(_layout_us(timeline)),
        fill_copies=fills / calls.steps.count,
        fill_copy_ms=calls.per_step_ms(fill_us),
        busy_p5=spread[0],
        busy_p95=spread[1],
        copies=copies_of(calls, timeline.computing),
        gaps=_largest(timeline),
        fill_location=fill_location,
        time=device_time(timeline),
        kernels_ms=kernels_ms(calls, timeline.chosen),
        products=products(calls),
        heaviest=kernel_costs(calls, timeline.chosen),
        captures=int((calls.among(CAPTURES) & (calls.step >= 0)).sum()) / calls.steps.count,
    )


def sync_points(trace: Trace) -> tuple[SyncPoint, ...]:
    """Where the host waited for the device within steps, longest idle first; none without a device.

    Waiting for data on their way to the device is no such point. Idle time belongs to the call that
    returned first in a gap.
    """
    calls = calls_of(trace)
    return () if calls is None else sync_points_of_calls(calls)


def sync_points_of_calls(calls: Calls) -> tuple[SyncPoint, ...]:
    """The same from the calls of a trace."""
    timeline = Timeline.of(calls)
    if timeline is None:
        return ()
    freeing = calls.among(("cudaFree", "hipFree")) & (calls.owner < 0) & (calls.step >= 0)
    waits = np.union1d(timeline.waits, np.flatnonzero(freeing))
    unit = np.where(calls.host.nearest(calls.top)[waits] >= 0, calls.host.nearest(calls.top)[waits], waits)
    inward = calls.host.around(calls.kernel_owner[is_copy(calls, "h2d")])
    idle: dict[int, float] = defaultdict(float)
    for gaps in timeline.gaps.pieces():
        wait_before = timeline.wait_before(gaps)
        waited_us = timeline.idle_us(gaps)["synchronization"]
        for at in np.flatnonzero(wait_before >= 0).tolist():
            idle[int(wait_before[at])] += float(waited_us[at])
    found: dict[tuple[str, Location | None, str], list[tuple[int, float, float]]] = defaultdict(list)
    for row, wait in zip(unit.tolist(), waits.tolist(), strict=True):
        if not inward[row]:
            key = _kind(calls, row, wait), calls.place(wait), _where(calls, wait)
            found[key].append((row, float(calls.end_us[wait] - calls.begin_us[wait]), idle[wait]))
    points = [
        SyncPoint(
            kind=kind,
            location=location,
            count_per_step=len({row for row, _, _ in each}) / calls.steps.count,
            blocked_ms=calls.per_step_ms(sum(blocked for _, blocked, _ in each)),
            idle_ms=sum(spent for _, _, spent in each) / 1000 / timeline.steps,
            where=where,
        )
        for (kind, location, where), each in found.items()
    ]
    return tuple(sorted(points, key=lambda point: -(point.idle_ms or 0.0)))


def _short_kernels(timeline: Timeline) -> float:
    """Share of kernels that are shorter than the call that launched them."""
    known = timeline.is_kernel & (timeline.launch >= 0)
    launch = timeline.launch[known]
    calling = timeline.calls.end_us[launch] - timeline.calls.begin_us[launch]
    return float(((timeline.end - timeline.begin)[known] < calling).mean()) if known.any() else 0.0


def _full_queue(timeline: Timeline) -> bool:
    """Whether at most launches many kernels wait already."""
    known = timeline.is_kernel & (timeline.launch >= 0)
    if not known.any():
        return False
    launched = np.sort(timeline.calls.end_us[timeline.launch[known]])
    begun = np.searchsorted(np.sort(timeline.begin[known]), launched, side="right")
    return bool(np.median(np.arange(len(launched)) - begun) >= FAR_AHEAD)


def _layout_us(timeline: Timeline) -> float:
    named = timeline.calls.kernels_named(lambda name: LAYOUT.search(name) is not None)[timeline.chosen]
    return float((timeline.end - timeline.begin)[named & timeline.is_kernel].sum())


def _spread(timeline: Timeline) -> tuple[float | None, float | None]:
    """Low and high busy shares of steps."""
    begins = timeline.step_begins
    if len(begins) <= STEPS_FOR_SPREAD:
        return None, None
    shares = timeline.computing.covers(begins[:-1], begins[1:]) / np.diff(begins)
    low, high = np.percentile(shares, (5, 95)).tolist()
    return low, high


def _fills(calls: Calls) -> tuple[int, float, Location | None]:
    """Tensors filled on the host and copied right after: how many, host time, and where most of it.

    What is filled and what is copied have one shape, where the trace tells. What the runtime starts up
    meanwhile, as with a program's first copy, is not counted.
    """
    rows = np.flatnonzero(calls.top & (calls.step >= 0) & (calls.phase != LOADER) & ~calls.among(VIEWS))
    moves = calls.among(MOVES) & calls.host.around(calls.kernel_owner[is_copy(calls, "h2d")])
    filling = calls.among(FILLS) & (calls.spent_us == 0)
    after, before = rows[1:], rows[:-1]
    pairs = moves[after] & filling[before] & (calls.thread[after] == calls.thread[before])
    moved, filled = after[pairs], before[pairs]
    same = np.array([_same_shape(calls, *each) for each in zip(moved.tolist(), filled.tolist(), strict=True)])
    if not same.any():
        return 0, 0.0, None
    moved, filled, length = moved[same], filled[same], calls.end_us - calls.begin_us
    starts, begun = starting(calls), np.zeros(len(length))
    begun[starts] = length[starts]
    begun = calls.host.sum_up(begun)
    spent = (length - begun)[moved] + (length - begun)[filled]
    return len(spent), float(spent.sum()), calls.place(int(moved[np.argmax(spent)]))


def _same_shape(calls: Calls, moved: int, filled: int) -> bool:
    """Whether one tensor may have been filled and then moved: nothing says otherwise."""
    inside = itertools.takewhile(
        lambda row: calls.end_us[row] <= calls.end_us[filled], range(filled, len(calls.host))
    )
    wanted = calls.signature_of(moved).shapes[:1]
    shapes = [calls.signature_of(row).shapes[:1] for row in inside]
    known = [shape for shape in shapes if shape and shape[0]]
    return not known or not wanted or wanted in known


def _largest(timeline: Timeline) -> tuple[Gap, ...]:
    """The longest gaps, longest first."""
    gaps = timeline.gaps
    length = gaps.end - gaps.begin
    return tuple(
        Gap(
            ms=float(length[at]) / 1000,
            during=_name(timeline.calls, covering),
            location=timeline.calls.place(covering[0]) if covering else None,
        )
        for at in np.argsort(-length, kind="stable")[:MOST_GAPS].tolist()
        for covering in [_covering(timeline.calls, float(gaps.begin[at] + gaps.end[at]) / 2)]
    )


def _covering(calls: Calls, when: float) -> list[int]:
    """What ran on the training thread at a moment, innermost first."""
    first, last = np.searchsorted(calls.thread, [calls.steps.thread, calls.steps.thread + 1]).tolist()
    begun = calls.begin_us[first:last] <= when
    row = last - 1 - int(np.argmax(begun[::-1])) if begun.any() else -1
    covering = []
    while row >= 0:
        if calls.end_us[row] >= when:
            covering.append(row)
        row = int(calls.host.parent[row])
    return covering


def _name(calls: Calls, covering: list[int]) -> str:
    """What to call it: loading, the operator that Python called, or an annotation that says something."""
    names = [calls.trace.names[int(calls.name[row])] for row in covering]
    if any(name.startswith(LOADING) for name in names):
        return "DataLoader"
    ops = [name for row, name in zip(covering, names, strict=True) if calls.op[row]]
    told = [name for name in names if not name.startswith(SAYS_NOTHING) and "): " not in name]
    return (ops or told or [""])[-1]


def _kind(calls: Calls, row: int, wait: int) -> str:
    """What to call a point; ``row`` is the operator that Python called, or the waiting call itself."""
    inner = int(calls.owner[wait])
    for at in (inner, row):
        name = calls.trace.names[calls.name[at]] if at >= 0 else ""
        if name in KINDS:
            return KINDS[name]
    name = calls.trace.names[calls.name[row]]
    if row == wait:
        return "synchronize"
    return "cpu" if name in MOVES else name.split("::")[-1]


def _where(calls: Calls, row: int) -> str:
    places = {LOADER: "loader", OPTIMIZER: "optimizer"}
    return places.get(int(calls.phase[row]), "user")
