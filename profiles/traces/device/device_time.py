"""What a device did with its time: computing, communicating, copying, standing still and why."""

from advisor.profiles.facts.recorded import DeviceTime
from advisor.profiles.traces.device.kernels import EXCHANGE
from advisor.profiles.traces.intervals import Times, union
from advisor.profiles.traces.nesting import Flags
from advisor.profiles.traces.timeline import Timeline
from advisor.profiles.traces.trace import CATEGORIES

COPY = CATEGORIES.index("gpu_memcpy")


def device_time(timeline: Timeline) -> DeviceTime:
    """The time of the whole window by what the device did, per step.

    Communication is exposed where nothing computes, a copy where nothing computes or communicates, as
    TraceLens and Holistic Trace Analysis define it. Filling memory counts as computing.
    """
    calls = timeline.calls
    copying = calls.trace.category[timeline.rows] == COPY
    exchanging = calls.kernels_named(lambda name: EXCHANGE.search(name) is not None)[timeline.chosen]
    computing_us = _length(timeline, ~copying & ~exchanging)
    working_us = _length(timeline, ~copying)
    gaps = timeline.active.gaps()
    total_us = float(timeline.end.max() - timeline.begin.min())
    per_step = calls.per_step_ms
    return DeviceTime(
        total_ms=per_step(total_us),
        computing_ms=per_step(computing_us),
        exposed_communication_ms=per_step(working_us - computing_us),
        exposed_copies_ms=per_step(timeline.active.length - working_us),
        idle_ms=per_step(total_us - timeline.active.length),
        idle=tuple((cause, per_step(us)) for cause, us in timeline.idle_by_cause_us(gaps).items()),
    )


def _length(timeline: Timeline, chosen: Flags) -> float:
    """How long any of these events ran."""
    begin: Times = timeline.begin[chosen]
    return union(begin, timeline.end[chosen]).length if len(begin) else 0.0
