"""Where the training steps of a trace begin and end."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.profiles.traces.trace import Trace

MARKS = ("advisor_step#", "ProfilerStep#")  # our recorder's, torch.profiler's
UPDATE = "Optimizer.step#"


@dataclass(frozen=True)
class Steps:
    """Steps of the host, in order, not overlapping.

    Attributes:
        thread: That trains, as in the trace.
        count: How many steps these are, where one interval may stand for several.
        exact: Whether annotations say where steps begin.
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
    update; else the whole trace is one step, or ``count`` of them.

    Args:
        trace: Of one process.
        count: How many there are, if that is known.
    """
    annotations = np.flatnonzero(trace.of("user_annotation"))
    for mark in MARKS:
        marked = annotations[_named(trace, mark)[trace.name[annotations]]]
        if len(marked):
            begin, end = trace.begin_us[marked], trace.end_us[marked]
            return Steps(begin, np.minimum(end, np.append(begin[1:], np.inf)), int(trace.thread[marked[0]]),
                         len(marked))  # fmt: skip
    host = np.flatnonzero(trace.of("cpu_op", "user_annotation"))
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
    note = "no step annotations and no optimizer step: the whole trace is taken as " + (
        "one step" if count is None else f"{count} steps"
    )
    busiest = int(np.argmax(np.bincount(trace.thread[host])))
    last = float(trace.end_us[host].max())
    return Steps(np.array([first]), np.array([last]), busiest, count or 1, exact=False, notes=(note,))


def _named(trace: Trace, prefix: str) -> NDArray[np.bool_]:
    """Which names of the trace begin like this."""
    return np.array([name.startswith(prefix) for name in trace.names], dtype=np.bool_)
