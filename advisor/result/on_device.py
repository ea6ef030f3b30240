"""What a profile shows of a device beside the parts of a step: products, kernels, exchanges."""

from typing import Literal

from pydantic import Field

from advisor.result.header import Finite, Record


class Product(Record):
    """Matrix products of (m, k) and (k, n) of one operator, type and size; calls and time are per step.

    ``roofline`` is the share of the peak of its type that it reaches.
    """

    op: str
    m: int
    n: int
    k: int
    batch: int = 1
    dtype: str = ""
    calls: Finite
    kernel_us: Finite
    tflops: Finite
    roofline: Finite | None = None


class Kernel(Record):
    """One kernel as one operator at one place launched it; calls and time on the device are per step.

    ``tflops`` and ``gb_per_s`` are what the operator works and moves by its shapes over the time of all its
    kernels, ``roofline`` is the share of the nearer limit (``bound``: ``arithmetic`` or ``memory``) that it
    reaches; ``null`` where they are not known.
    """

    name: str
    kind: str
    calls: Finite
    us: Finite
    op: str = ""
    location: str | None = None
    dtype: str | None = None
    tflops: Finite | None = None
    gb_per_s: Finite | None = None
    roofline: Finite | None = None
    bound: Literal["arithmetic", "memory"] | None = None


class Collective(Record):
    """Exchanges between ranks of one kind and size; calls and times are per step.

    ``wait_ms`` is the part of ``ms`` before the last rank came, ``null`` where no traces of the others tell.
    ``bus_gb_per_s`` is the bus bandwidth as nccl-tests define it, ``of_link`` its share of the links of
    the device by its data sheet, ``overlapped`` the share of ``ms`` in which the rank computed,
    ``overlapped_in_turn`` that of the first, the second, ... of a step, where all steps have as many.
    """

    kind: str
    calls: Finite
    ms: Finite
    bytes: int | None = None
    ranks: int | None = None
    wait_ms: Finite | None = None
    bus_gb_per_s: Finite | None = None
    of_link: Finite | None = None
    overlapped: Finite = 0.0
    overlapped_in_turn: list[Finite] = Field(default_factory=list)
