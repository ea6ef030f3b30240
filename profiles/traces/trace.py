"""A torch.profiler trace as columns: one row per event that has a duration, sorted by its beginning."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

CATEGORIES = (
    "other", "cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver", "kernel",
    "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "overhead",
)  # fmt: skip
"""Kineto's categories; ``category`` holds the position. All unknown ones are ``other``."""

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")

Numbers = NDArray[np.signedinteger[Any]]
"""Of as few bytes as they need, with room for arithmetic: a trace may hold millions."""


_NARROW: dict[int, type[np.signedinteger[Any]]] = {2**14: np.int16, 2**30: np.int32}
"""Up to where numbers take two and four bytes, with room to add to them."""


def narrow(values: NDArray[Any]) -> Numbers:
    """Whole numbers in as few bytes as they need."""
    most = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    kind: type[np.signedinteger[Any]]
    kind = next((each for limit, each in _NARROW.items() if most < limit), np.int64)
    return values.astype(kind, copy=False)


@dataclass(frozen=True)
class Trace:
    """Events of one process. All arrays have one entry per event; times in microseconds.

    Attributes:
        names: Distinct names; ``name`` holds positions in it.
        thread: Position in ``threads``, which holds ``(pid, tid)`` as text; streams of a device are threads.
        correlation: Links a launch to its kernel; 0 without one.
        external: Kineto's ``External id``: links a kernel to its operator; 0 without one.
        sequence: Links an operator to its node of the autograd graph; negative without one.
        recording: Whether it runs where it was called, as what makes such a node does, not where a node runs.
        detail: Position in ``details``, or -1. A detail is what an event's arguments hold beside the links:
            ``Input Dims``, ``Input type``, ``Concrete Inputs``, ``stream``, ``bytes``,
            ``Call stack``, ``Collective name`` ..., shared by events with equal ones.
        rank: Of the process in its distributed run, where the file says so.
        info: ``schemaVersion``, ``distributedInfo``, ``deviceProperties`` and the like, as found.
        notes: What was wrong with the file and how far it was read.
        cut: The file ends within the list of events.
    """

    names: list[str]
    name: Numbers
    category: NDArray[np.uint8]
    begin_us: NDArray[np.float64]
    duration_us: NDArray[np.float64]
    threads: list[tuple[str, str]]
    thread: Numbers
    correlation: Numbers
    external: Numbers
    sequence: Numbers
    recording: NDArray[np.bool_]
    detail: Numbers
    details: list[dict[str, Any]]
    rank: int | None = None
    info: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    cut: bool = False

    def __len__(self) -> int:
        return len(self.begin_us)

    @property
    def end_us(self) -> NDArray[np.float64]:
        """When each event ended."""
        return self.begin_us + self.duration_us

    def of(self, *categories: str) -> NDArray[np.bool_]:
        """Which events belong to any of these categories."""
        wanted = np.zeros(len(CATEGORIES), dtype=np.bool_)
        wanted[[CATEGORIES.index(category) for category in categories]] = True
        return wanted[self.category]
