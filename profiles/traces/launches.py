"""Which call of the host launched each event of a device, and within which operator."""

from dataclasses import dataclass, replace

import numpy as np

from advisor.profiles.traces.nesting import Flags, Host, Ints
from advisor.profiles.traces.steps import Steps
from advisor.profiles.traces.trace import DEVICE, Numbers, Trace, narrow


@dataclass(frozen=True)
class Launches:
    """Events of devices, in order.

    Attributes:
        kernels: Their positions in the trace.
        by: The position in ``Host`` of the call that launched each, or -1.
        owner: That of the innermost operator around that call, or that the event is linked to; or -1.
        since_us: Until when devices worked on what was launched before the recording; -inf without such.
        left_ms: For how long, in all.
    """

    kernels: Ints
    by: Ints
    owner: Ints
    since_us: float = -np.inf
    left_ms: float = 0.0

    def within(self, steps: Steps, trace: Trace, host: Host) -> tuple["Launches", Ints]:
        """Those that steps launched, and which step did; without a launch it is the one they begin in."""
        source = np.where(self.by >= 0, self.by, self.owner)
        step = steps.of(
            np.where(source >= 0, trace.begin_us[host.rows[source]], trace.begin_us[self.kernels])
        )
        chosen = step >= 0
        kept = replace(self, kernels=self.kernels[chosen], by=self.by[chosen], owner=self.owner[chosen])
        return kept, narrow(step[chosen])

    def begun(self, steps: Steps, first_us: float) -> Steps:
        """The steps from when the device is free, if the host does nothing before ``first_us``, either."""
        if not self.left_ms:
            return steps
        note = f"{self.left_ms:.3g} ms of the device were launched before the recording and are left out"
        notes = (*steps.notes, note)
        if not steps.begin_us[0] < self.since_us <= min(first_us, steps.end_us[0]):
            return replace(steps, notes=notes)
        return replace(steps, begin_us=np.append(self.since_us, steps.begin_us[1:]), notes=notes)


def launches_of(trace: Trace, host: Host, owner: Ints, op: Flags) -> Launches:
    """The launches of a trace.

    What no recorded call launched, though others have one, and what began before all of these, was launched
    before the recording and is left out.

    Args:
        trace: Of one process.
        host: Its events of the host.
        owner: The innermost operator around each of these, or -1.
        op: Which of these are operators.
    """
    kernels = np.flatnonzero(trace.of(*DEVICE)).astype(np.int32)
    if not len(kernels):
        return Launches(kernels, kernels, kernels)
    runtime = np.flatnonzero(trace.of("cuda_runtime", "cuda_driver")[host.rows])
    ops = np.flatnonzero(op)
    linked = find(trace.external[host.rows[ops]], ops, trace.external[kernels])
    if trace.correlation[kernels].any():
        by = find(trace.correlation[host.rows[runtime]], runtime, trace.correlation[kernels])
    else:  # as traces of ROCm were: the id that a call has in common with its kernel is no operator's
        by = find(trace.external[host.rows[runtime]], runtime, trace.external[kernels])
        linked = np.where(by >= 0, -1, linked)
    owned = np.where(by >= 0, owner[by], -1)
    by, found = by.astype(np.int32), np.where(owned >= 0, owned, linked).astype(np.int32)
    known = (by >= 0) | (found >= 0)
    if not known.any() or known[0]:
        return Launches(kernels, by, found)
    left, kept = np.split(kernels, [int(np.argmax(known))])
    since, spent = float(trace.end_us[left].max()), float(trace.duration_us[left].sum()) / 1000
    return Launches(kept, by[len(left) :], found[len(left) :], since, spent)


def find(keys: Numbers, values: Ints, wanted: Numbers) -> Ints:
    """The value whose key each wanted one equals, -1 without one; key 0 means none."""
    known = keys != 0
    keys, values = keys[known], values[known]
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((keys[at] == wanted) & (wanted != 0), values[at], -1)
