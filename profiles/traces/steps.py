"""Where the training steps of a trace begin and end."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.profiles.traces.trace import Trace

MARKS = ("advisor_step#", "ProfilerStep#")  # our recorder's, torch.profiler's
UPDATE = "Optimizer.step#"
CUT = (
    0.5  # of the other steps: a last one with less time and fewer events was cut by the end of the recording
)
FEWEST_OPS, FEWEST_TIMES = 10, 3  # of a sequence of operators that is taken for a step
UNLIKE = 10  # times the median: sequences of such different lengths are no steps
MOST_TRIED = 64  # lengths of such a sequence


@dataclass(frozen=True)
class Steps:
    """Steps of the host, in order, not overlapping.

    Attributes:
        thread: That trains, as in the trace.
        count: How many steps these are, where one interval may stand for several.
        exact: Whether each has an interval of its own.
    """

    begin_us: NDArray[np.float64]
    end_us: NDArray[np.float64]
    thread: int
    count: int
    exact: bool = True
    notes: tuple[str, ...] = ()

    def of(self, when: NDArray[np.float64]) -> NDArray[np.int64]:
        """The step that each moment falls into, or -1."""
        step = np.searchsorted(self.begin_us, when, side="right") - 1
        return np.where((step >= 0) & (when <= self.end_us[np.maximum(step, 0)]), step, -1)

    @property
    def mean_ms(self) -> float:
        """Mean time of a step."""
        return float((self.end_us - self.begin_us).sum()) / 1000 / self.count

    @property
    def usual_ms(self) -> float:
        """The median where single long steps raise the mean."""
        if self.count != len(self.begin_us):
            return self.mean_ms
        return min(self.mean_ms, float(np.median(self.end_us - self.begin_us)) / 1000)


def steps_of(trace: Trace, count: int | None = None) -> Steps | None:
    """The steps of a trace, ``None`` if it holds no event of a host.

    Steps are annotations of our recorder or of torch.profiler; else each ends with an optimizer's
    update; else each begins where the operators begin to come again as they came; else the whole trace
    is one step, or ``count`` of them. An annotated step that the end of the recording cut is left out.

    Args:
        trace: Of one process.
        count: How many there are, if that is known.
    """
    annotations = np.flatnonzero(trace.of("user_annotation"))
    for mark in MARKS:
        marked = annotations[_named(trace, mark)[trace.name[annotations]]]
        if len(marked):
            begin, end = trace.begin_us[marked], trace.end_us[marked]
            steps = Steps(begin, np.minimum(end, np.append(begin[1:], np.inf)), int(trace.thread[marked[0]]),
                          len(marked))  # fmt: skip
            return _whole(trace, steps)
    host = np.flatnonzero(trace.of("cpu_op", "user_annotation"))
    if not len(host):
        host = np.flatnonzero(trace.of("python_function", "cuda_runtime", "cuda_driver"))
    if not len(host):
        return None
    updates = annotations[_named(trace, UPDATE)[trace.name[annotations]]]
    first = float(trace.begin_us[host[0]])
    if len(updates):
        closing = trace.name[updates] == trace.name[updates[-1]]
        end = np.unique(trace.end_us[updates[closing]])
        wanted = len(end) if count is None or len(end) % count else count
        end = end[len(end) // wanted - 1 :: len(end) // wanted]
        note = f"no step annotations: each step ends with {trace.names[trace.name[updates[-1]]]}"
        return Steps(np.append(first, end[:-1]), end, int(trace.thread[updates[0]]), len(end), notes=(note,))
    busiest = int(np.argmax(np.bincount(trace.thread[host])))
    if count is None:
        again = _repeated(trace, host, busiest)
        if again is not None:
            return again
    note = "no step annotations and no optimizer step: the whole trace is taken as " + (
        "one step" if count is None else f"{count} steps"
    )
    last = float(trace.end_us[host].max())
    return Steps(np.array([first]), np.array([last]), busiest, count or 1, exact=False, notes=(note,))


def _whole(trace: Trace, steps: Steps) -> Steps:
    """The steps without the last, where the recording ended within it.

    That is so if the file is cut off, or if it is far shorter than the others and holds far fewer events.
    """
    last = len(steps.begin_us) - 1
    if last < 1:
        return steps
    if not trace.cut:
        step = steps.of(trace.begin_us[trace.thread == steps.thread])
        events = np.bincount(step[step >= 0], minlength=last + 1)
        length = steps.end_us - steps.begin_us
        if last < 2 or max(_relative(events), _relative(length)) >= CUT:
            return steps
    note = "the last step is cut short and left out"
    before = np.nextafter(
        steps.begin_us[-1], -np.inf
    )  # what begins with the last step is none of the others'
    return Steps(
        steps.begin_us[:-1], np.minimum(steps.end_us[:-1], before), steps.thread, last, notes=(note,)
    )


def _relative(values: NDArray[Any]) -> float:
    """The last value over the median of the others."""
    return float(values[-1]) / max(float(np.median(values[:-1])), 1e-9)


def _repeated(trace: Trace, host: NDArray[np.intp], thread: int) -> Steps | None:
    """Steps that begin where a sequence of operators begins again, if all operators are such sequences.

    Only those that no other operator calls are compared. The last sequence may be incomplete. Where one
    took many times as long as the others, as the first does in a program that has just begun, a mean over
    them would say nothing.
    """
    ops = np.flatnonzero(trace.of("cpu_op") & (trace.thread == thread))
    if len(ops) < FEWEST_OPS * FEWEST_TIMES:
        return None
    reached = np.maximum.accumulate(trace.end_us[ops])
    outer = ops[np.append(True, trace.begin_us[ops[1:]] >= reached[:-1])]
    names = trace.name[outer]
    counts = np.bincount(names)
    rarest = np.flatnonzero(names == np.argmin(np.where(counts > 0, counts, len(names) + 1)))
    for period in (rarest[1:MOST_TRIED] - rarest[0]).tolist():
        times = len(names) // period
        if times < FEWEST_TIMES:
            return None
        if period >= FEWEST_OPS and (names[period:] == names[:-period]).all():
            begin = trace.begin_us[outer[: times * period : period]]
            rest = trace.begin_us[outer[times * period :]]
            end = np.append(begin[1:], rest[0] if len(rest) else trace.end_us[host].max())
            if (end - begin).max() > UNLIKE * np.median(end - begin):
                return None
            note = f"no step annotations: each step begins where the same {period} operators come again"
            return Steps(begin, end, thread, times, notes=(note,))
    return None


def _named(trace: Trace, prefix: str) -> NDArray[np.bool_]:
    """Which names of the trace begin like this."""
    return np.array([name.startswith(prefix) for name in trace.names], dtype=np.bool_)
