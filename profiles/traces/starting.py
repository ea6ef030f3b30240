"""Calls of a device's runtime that start something up: a context, a module, memory that is not pooled yet."""

import re

from advisor.profiles.traces.calls import WAITING, Calls
from advisor.profiles.traces.nesting import Flags

LONG_US = 1000.0
"""A launch takes some 5 us and an allocation by the driver some 100 us; what takes this long loads code,
opens the device or gets memory from the system (0.1 s to 30 s in first steps of public traces)."""

COPYING = re.compile(r"Memcpy|Memset|Memory(Copy|Fill)", re.IGNORECASE)


def starting(calls: Calls) -> Flags:
    """Which events are such calls. Copies and waits for the device are none, however long they take."""
    runtime = calls.trace.of("cuda_runtime", "cuda_driver")[calls.host.rows]
    long = calls.end_us - calls.begin_us >= LONG_US
    other = calls.named(lambda name: WAITING.match(name) is not None or COPYING.search(name) is not None)
    found: Flags = runtime & long & ~other
    return found
