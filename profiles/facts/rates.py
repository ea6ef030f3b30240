"""Limits of a machine, as values: measured by ``advisor.profiles.derived.ceilings``, or from a data sheet."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    """What the machine can do, with the threads that the program uses.

    ``matmul`` holds FLOP/s by dtype (``float32``, ``bfloat16``, ``float64``, ``float16``, ``float32_medium``
    for float32 at matmul precision ``medium``). Memory in bytes/s: ``memory_sequential``,
    ``memory_strided`` (one float32 per 64-byte line), ``memory_random``. ``dispatch_us`` is the cost of one
    tiny operator. ``storage_read`` is bytes/s of reading a file that is not cached. ``h2d_*`` and ``d2h_*``
    in bytes/s. ``caches`` are bytes by level. ``link`` is bytes/s between this device and others, in one
    direction. ``source`` says where they are from; empty where they were measured. ``None`` is not known.
    """

    threads: int = 1
    matmul: tuple[tuple[str, float], ...] = ()
    memory_sequential: float | None = None
    memory_strided: float | None = None
    memory_random: float | None = None
    dispatch_us: float | None = None
    storage_read: float | None = None
    h2d_pageable: float | None = None
    h2d_pinned: float | None = None
    d2h_pinned: float | None = None
    caches: tuple[tuple[str, int], ...] = ()
    link: float | None = None
    source: str = ""

    def flops(self, dtype: str) -> float | None:
        """FLOP/s of a matmul in ``dtype``, if it is known."""
        return dict(self.matmul).get(dtype)
