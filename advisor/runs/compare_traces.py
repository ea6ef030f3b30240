"""Two trace files made elsewhere, side by side: what takes longer in one of them, to the line."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from advisor.base.errors import UsageError
from advisor.profiles.facts.recorded import KernelCost
from advisor.profiles.traces.calls import Calls, calls_of
from advisor.profiles.traces.device.device_time import device_time
from advisor.profiles.traces.device.kernel_costs import kernel_costs
from advisor.profiles.traces.device.kernels import kernels_ms
from advisor.profiles.traces.operator_times import OperatorTime, operator_times
from advisor.profiles.traces.ops import phases_of_calls
from advisor.profiles.traces.reading import read_trace
from advisor.profiles.traces.timeline import Timeline
from advisor.result.header import header
from advisor.result.trace_comparison import TraceComparison, TraceSide, of_each, of_parts
from advisor.result.wording import shown
from advisor.runs.profile_traces import gpus_of
from advisor.stages.diagnosing.result_findings import DEVICE_PARTS, PARTS

IN_COMMON = 0.1  # of the time of operators, at least, for two traces to be of one program; not measured


@dataclass(frozen=True)
class _Side:
    """What one trace shows."""

    told: TraceSide
    on_device: bool
    device: Mapping[str, float]
    idle: Mapping[str, float]
    host: Mapping[str, float]
    kinds: Mapping[str, float]
    operators: tuple[OperatorTime, ...]
    kernels: tuple[KernelCost, ...]


def compare_traces(a: Path, b: Path) -> TraceComparison:
    """Put two traces of one program side by side, per step.

    Args:
        a: Chrome JSON as torch.profiler exports it, gzipped or not.
        b: Another one.

    Raises:
        UsageError: One of them cannot be read, or they have nothing in common; with the reason.
    """
    if a.resolve() == b.resolve():
        raise UsageError(f"the same trace twice: {shown(str(a))} and {shown(str(b))}", code="not_comparable")
    first, second = _side(a), _side(b)
    _refuse(first, second)
    ratio = second.told.step_ms / first.told.step_ms if first.told.step_ms > 0 else None
    return TraceComparison(
        **header(),
        a=first.told,
        b=second.told,
        step_ratio=ratio,
        device=of_parts(first.device, second.device),
        idle=of_parts(first.idle, second.idle),
        host=of_parts(first.host, second.host),
        kinds=of_parts(first.kinds, second.kinds),
        operators=of_each(first.operators, second.operators, lambda op: op.phase, lambda op: op.ms),
        kernels=of_each(
            first.kernels, second.kernels, lambda kernel: kernel.op, lambda kernel: kernel.us / 1000
        ),
    )


def _side(path: Path) -> _Side:
    trace = read_trace(path)
    calls = calls_of(trace)
    if calls is None:
        raise UsageError(
            "the trace holds no operator of the host",
            where=str(path),
            hint="record with `activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]`",
        )
    timeline = Timeline.of(calls)
    phases = phases_of_calls(calls)
    time = None if timeline is None else device_time(timeline)
    return _Side(
        told=TraceSide(
            name=str(path),
            device=_devices(calls),
            steps=calls.steps.count,
            step_ms=calls.step_ms,
            notes=[*trace.notes, *calls.steps.notes],
        ),
        on_device=timeline is not None,
        device={} if time is None else {p: getattr(time, f"{p}_ms") for p in DEVICE_PARTS if p != "total"},
        idle={} if time is None else dict(time.idle),
        host={part: getattr(phases, f"{part}_ms") for part in PARTS},
        kinds={} if timeline is None else dict(kernels_ms(calls, timeline.chosen)),
        operators=operator_times(calls),
        kernels=() if timeline is None else kernel_costs(calls, timeline.chosen, None),
    )


def _devices(calls: Calls) -> str:
    return " + ".join(sorted({gpu.name or "a GPU without a name" for gpu in gpus_of(calls.trace)}))


def _refuse(a: _Side, b: _Side) -> None:
    """Refuse what is not comparable: a device in one trace alone, or other operators.

    Raises:
        UsageError: With the reason.
    """
    names = [shown(each.told.name) for each in (a, b)]
    if a.on_device != b.on_device:
        alone = names[0] if a.on_device else names[1]
        raise UsageError(
            f"not comparable: {alone} alone holds events of a device",
            hint="record both with the same `activities`",
            code="not_comparable",
        )
    used = [{op.name for op in each.operators} for each in (a, b)]
    common = used[0] & used[1]
    shares = [
        sum(op.ms for op in each.operators if op.name in common)
        / max(sum(op.ms for op in each.operators), 1e-9)
        for each in (a, b)
    ]
    if max(shares) < IN_COMMON:
        raise UsageError(
            f"not comparable: {names[0]} and {names[1]} have hardly an operator in common",
            hint="compare two traces of one program",
            code="not_comparable",
        )
