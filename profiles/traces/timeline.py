"""Events of one device in order, the gaps between them, and what each gap waited for."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from advisor.profiles.traces.calls import Calls, Times
from advisor.profiles.traces.intervals import Union, union
from advisor.profiles.traces.nesting import Flags, Ints
from advisor.profiles.traces.start_up_calls import starting
from advisor.profiles.traces.trace import CATEGORIES, Trace

CLOCKS_US = 5.0  # by which the clocks of host and device may disagree
MOSTLY = 0.5  # of a gap: from where loading is its cause
LATENCY_US = 100.0
"""From the end of a launch to its kernel, at most, where nothing holds it up: 99 % begin within 4 us on A100
and H100 and within 23 us on MI300X (``benchmarks/gpu_traces.py``); four times that, for busy hosts."""


KERNEL = CATEGORIES.index("kernel")
LOADING = ("enumerate(DataLoader)#", "advisor_loader")

CAUSES = (
    "launch", "input", "synchronization", "after_last_kernel", "starting", "before_recording", "device",
    "other",
)  # fmt: skip
"""What a gap waits for: a launch, data, a host that had itself waited for the device, a host that had still
to finish the step, a call of the runtime that starts something up, work that was launched before the
recording, the device itself, to which the work was launched already, or nothing that is known."""


@dataclass(frozen=True)
class Timeline:
    """Events of the busiest device, by beginning; ``chosen`` are their positions in ``calls.kernels``.

    Shares are of the time from the first event of the first step to that of the last, where there are
    two steps at least: then what fills the queue at first and drains it in the end does not count.
    """

    calls: Calls
    chosen: Ints
    begin: Times
    end: Times
    is_kernel: Flags

    @classmethod
    def of(cls, calls: Calls) -> "Timeline | None":
        """The timeline, ``None`` where no event of a device was recorded."""
        if not len(calls.kernels):
            return None
        trace = calls.trace
        devices = np.array([_position(trace, process) for process, _ in trace.threads], dtype=np.int64)
        device = devices[trace.thread[calls.kernels]]
        busiest = int(np.argmax(np.bincount(device, trace.duration_us[calls.kernels] + 1e-9)))
        chosen = np.flatnonzero(device == busiest)
        rows = calls.kernels[chosen]
        return cls(calls, chosen, trace.begin_us[rows], trace.end_us[rows], trace.category[rows] == KERNEL)

    @property
    def rows(self) -> Ints:
        """Positions of the events in the trace."""
        return self.calls.kernels[self.chosen]

    @property
    def launch(self) -> Ints:
        """The call that launched each event, or -1."""
        return self.calls.launched_by[self.chosen]

    @cached_property
    def computing(self) -> Union:
        """When a kernel ran."""
        return union(self.begin[self.is_kernel], self.end[self.is_kernel])

    @cached_property
    def active(self) -> Union:
        """When anything ran."""
        return union(self.begin, self.end)

    @cached_property
    def step_begins(self) -> Times:
        """Beginning of the first event of each step, and of the last step the end of its last."""
        _, first = np.unique(self.calls.kernel_step[self.chosen], return_index=True)
        begins = self.begin[first]
        return begins if len(begins) > 1 else np.append(begins, self.end.max())

    @property
    def steps(self) -> int:
        """How many steps lie between the first and the last of ``step_begins``."""
        return max(1, len(self.step_begins) - 1) * (1 if self.calls.steps.exact else self.calls.steps.count)

    @cached_property
    def gaps(self) -> Union:
        """When nothing ran, within ``step_begins``."""
        return self.active.gaps().within(float(self.step_begins[0]), float(self.step_begins[-1]))

    @cached_property
    def waits(self) -> Ints:
        """Calls that made the host wait, by their end."""
        waiting = self.calls.waiting
        return waiting[np.argsort(self.calls.end_us[waiting], kind="stable")]

    @cached_property
    def starting(self) -> Union:
        """When the runtime started something up."""
        starts = starting(self.calls)
        return union(self.calls.begin_us[starts], self.calls.end_us[starts])

    @cached_property
    def loading(self) -> Union:
        """When the training thread loaded data."""
        calls = self.calls
        loads = np.flatnonzero(calls.named(lambda name: name.startswith(LOADING)))
        loads = loads[calls.thread[loads] == calls.steps.thread]
        return union(calls.begin_us[loads], calls.end_us[loads])

    @cached_property
    def _first(self) -> Flags:
        """Which events are the first of their stream."""
        first = np.zeros(len(self.chosen), np.bool_)
        first[np.unique(self.calls.trace.thread[self.rows], return_index=True)[1]] = True
        return first

    def wait_before(self, gaps: Union) -> Ints:
        """For each gap the call that returned first in it, if it had begun to wait before it; else -1."""
        ends = self.calls.end_us[self.waits]
        if not len(ends):
            return np.full(len(gaps.begin), -1, dtype=np.int64)
        at = np.searchsorted(ends, gaps.begin - CLOCKS_US)
        found = self.waits[np.minimum(at, len(ends) - 1)]
        waited = (self.calls.end_us[found] <= gaps.end) & (self.calls.begin_us[found] < gaps.begin)
        return np.where((at < len(ends)) & waited, found, -1)

    def idle_us(self, gaps: Union) -> dict[str, Times]:
        """How long each gap waited, by cause; of each gap they add up to its length.

        A gap waits for the host until the call that launched what ends it has returned, if that was later
        than its own beginning: for data if loading takes most of it, for a synchronisation if the host had
        begun to wait for the device before it, else until the host's step is over for what that has still to
        do, and from there for a launch, less what starts something up. After the launch it waits for the
        device, which the first work of a stream finds busy with what is not in the recording.
        """
        calls, length = self.calls, gaps.end - gaps.begin
        following = np.minimum(np.searchsorted(self.begin, gaps.end), len(self.begin) - 1)
        launch = self.launch[following]
        known = launch >= 0
        launched = calls.end_us[launch] - gaps.begin
        host = np.where(known & (launched > 0), np.minimum(launched + LATENCY_US, length), 0.0)
        loaded = self.loading.covers(gaps.begin, gaps.end) > MOSTLY * length
        waited = ~loaded & (self.wait_before(gaps) >= 0)
        rest = ~loaded & ~waited
        left = np.where(rest, np.clip(self._step_end(following) - gaps.begin, 0.0, host), 0.0)
        launching = np.where(rest, host - left, 0.0)
        begun = np.minimum(self.starting.covers(gaps.begin, gaps.end), launching)
        return {
            "launch": launching - begun,
            "input": np.where(loaded, host, 0.0),
            "synchronization": np.where(waited, host, 0.0),
            "after_last_kernel": left,
            "starting": begun,
            "before_recording": np.where(known & self._first[following], length - host, 0.0),
            "device": np.where(known & ~self._first[following], length - host, 0.0),
            "other": np.where(known, 0.0, length),
        }

    def idle_by_cause_us(self, gaps: Union) -> dict[str, float]:
        """The same for all gaps together."""
        spent = dict.fromkeys(CAUSES, 0.0)
        for piece in gaps.pieces():
            for cause, each in self.idle_us(piece).items():
                spent[cause] += float(each.sum())
        return spent

    def _step_end(self, following: Ints) -> Times:
        """Where these events are the first of their step, when the host's step before ended; else -inf."""
        step = self.calls.kernel_step[self.chosen]
        before = step[np.maximum(following - 1, 0)]
        return np.where(step[following] > before, self.calls.steps.end_us[before], -np.inf)


def _position(trace: Trace, process: str) -> int:
    """A number for each process; of devices it is theirs."""
    return next(at for at, (each, _) in enumerate(trace.threads) if each == process)
