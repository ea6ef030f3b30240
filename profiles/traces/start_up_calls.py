"""Calls of a device's runtime that start something up: a context, a module, memory that is not pooled yet."""

import re

import numpy as np

from advisor.profiles.traces.calls import WAITING, Calls
from advisor.profiles.traces.nesting import Ints

LONG_US = 1000.0
"""A launch takes some 5 us and an allocation by the driver some 100 us; what takes this long loads code,
opens the device or gets memory from the system (0.1 s to 30 s in first steps of public traces)."""

COPYING = re.compile(r"Memcpy|Memset|Memory(Copy|Fill)", re.IGNORECASE)


def starting(calls: Calls) -> Ints:
    """Positions of such calls. Copies and waits for the device are none, however long they take."""
    trace = calls.trace
    runtime = np.flatnonzero(trace.of("cuda_runtime", "cuda_driver")[calls.host.rows])
    long = runtime[trace.duration_us[calls.host.rows[runtime]] >= LONG_US]
    names = (trace.names[name] for name in calls.name[long].tolist())
    other = [WAITING.match(name) is not None or COPYING.search(name) is not None for name in names]
    found: Ints = long[~np.array(other, np.bool_)]
    return found
