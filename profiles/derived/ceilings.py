"""Measured limits of the machine: arithmetic by dtype, memory, dispatch, copies, storage.

Each figure is the best of a few short repetitions, with the threads that the process uses now: limits are
what a quiet moment allows, so the fastest repetition is the right one (STREAM's convention).
"""

import math
import os
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.machine import cache_sizes
from advisor.profiles.facts.rates import Rates

if TYPE_CHECKING:
    import torch

MATMUL = 768  # square; three float32 matrices take 7 MB, more than most second-level caches
DEVICE_MATMUL = 4096
STREAM_BYTES = 96 * 2**20  # read and written; well beyond the caches of a few cores
STORAGE_BYTES, STORAGE_BLOCK = 32 * 2**20, 4 * 2**20
PILOT, SLOW_S = 4, 0.25  # a product so many times smaller tells of one that would take longer
REPEATS = 5
DISPATCHES = 2000
LINE = 16  # float32 values in a cache line of 64 bytes


def measure_rates(limit_s: float = 4.0, device: str | None = None) -> Rates:
    """Measure what this process can reach on this machine.

    Takes one to three seconds, and hardly more than ``limit_s``: what is begun by then is repeated less
    often, and what would take longer is left out. Torch's state is as before.

    Args:
        limit_s: Seconds after which no further figure is begun, and none repeated.
        device: A device to measure copies and arithmetic on; by default CUDA where it is in use.
    """
    import torch

    until = time.monotonic() + limit_s
    if device is None and torch.cuda.is_initialized():
        device = "cuda"
    on_device = device is not None and device.startswith("cuda")
    place = torch.device(device or "cpu")
    matmul = _matmul(place, DEVICE_MATMUL if on_device else MATMUL, until)
    sequential, strided, random = _memory(place, until)
    copies = _copies(place, until) if on_device and time.monotonic() < until else (None, None, None)
    return Rates(
        threads=torch.get_num_threads(),
        matmul=matmul,
        memory_sequential=sequential,
        memory_strided=strided,
        memory_random=random,
        dispatch_us=_dispatch_us(until),
        storage_read=storage_rate(until=until) if time.monotonic() < until else None,
        h2d_pageable=copies[0],
        h2d_pinned=copies[1],
        d2h_pinned=copies[2],
        caches=cache_sizes(),
    )


def storage_rate(folder: str | None = None, until: float = math.inf) -> float | None:
    """Bytes per second of reading a file that is in no cache; ``None`` where that cannot be arranged.

    Args:
        folder: Where the file is made for the moment; the system's temporary folder by default.
        until: Monotonic time after which the file grows no more, and is read no further.
    """
    if not hasattr(os, "posix_fadvise"):
        return None
    block = os.urandom(STORAGE_BLOCK)
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(STORAGE_BYTES // len(block)):
            file.write(block)
            file.flush()
            os.fsync(file.fileno())  # of each block: what waits to be written is not known to take long
            if time.monotonic() > until:
                break
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        began = time.perf_counter()
        file.seek(0)
        read = 0
        while chunk := file.read(2**20):
            read += len(chunk)
            if time.monotonic() > until:
                break
        return read / (time.perf_counter() - began)


def _matmul(place: "torch.device", size: int, until: float) -> tuple[tuple[str, float], ...]:
    """FLOP/s (2 n^3 each) by dtype, float32 also at matmul precision ``medium``."""
    import torch

    rates = []
    kinds = [("float32", torch.float32), ("bfloat16", torch.bfloat16), ("float64", torch.float64)]
    if place.type != "cpu":
        kinds.append(("float16", torch.float16))
    for name, dtype in kinds:
        if time.monotonic() > until:
            break
        a, b, out = (torch.ones(size // PILOT, size // PILOT, dtype=dtype, device=place) for _ in range(3))
        rate = _flops(a, b, out, until)
        if 2 * size**3 / rate <= SLOW_S:  # not where bfloat16 is emulated
            a, b, out = (torch.ones(size, size, dtype=dtype, device=place) for _ in range(3))
            rate = _flops(a, b, out, until)
        rates.append((name, rate))
        if name == "float32":
            rates.append(("float32_medium", _medium(a, b, out, until)))
    return tuple(rates)


def _flops(a: "torch.Tensor", b: "torch.Tensor", out: "torch.Tensor", until: float) -> float:
    import torch

    return 2 * len(a) ** 3 / _best(lambda: torch.mm(a, b, out=out), REPEATS, until)


def _medium(a: "torch.Tensor", b: "torch.Tensor", out: "torch.Tensor", until: float) -> float:
    import torch

    backends: list[Any] = [getattr(torch.backends.mkldnn, "matmul"), torch.backends.cuda.matmul]  # noqa: B009 (made at import)
    before = [backend.fp32_precision for backend in backends]
    try:
        for backend, precision in zip(backends, ("bf16", "tf32"), strict=True):
            backend.fp32_precision = precision
        return _flops(a, b, out, until)
    finally:
        for backend, precision in zip(backends, before, strict=True):
            backend.fp32_precision = precision


def _memory(place: "torch.device", until: float) -> tuple[float | None, float | None, float | None]:
    """Bytes per second: copied in order; one value of each line read; lines gathered in random order.

    The three take turns, so that a disturbance of some milliseconds does not meet one of them alone.
    """
    import torch

    count = STREAM_BYTES // 8 // LINE * LINE  # half is read, half written, 4 bytes each
    source = torch.ones(count, device=place)
    target = torch.empty_like(source)
    if time.monotonic() > until:
        return 2 * 4 * count / _best(lambda: target.copy_(source), REPEATS, until), None, None
    lines, gathered = source.view(-1, LINE), target.view(-1, LINE)
    column = torch.empty(len(lines), device=place)
    generator = torch.Generator(device=place).manual_seed(0)
    order = torch.randperm(len(lines), generator=generator, device=place)  # each line once: none is cached
    sequential, strided, random = _best_in_turn(
        lambda: target.copy_(source),
        lambda: column.copy_(lines[:, 0]),
        lambda: torch.index_select(lines, 0, order, out=gathered),
        until=until,
    )
    # A whole line moves for each value of a column.
    return 2 * 4 * count / sequential, 64 * len(lines) / strided, 2 * 64 * len(lines) / random


def _copies(place: "torch.device", until: float) -> tuple[float, float, float]:
    import torch

    host = torch.ones(STREAM_BYTES // 4)
    pinned = host.pin_memory()
    there = torch.empty(len(host), device=place)
    total = 4 * len(host)
    return (
        total / _best(lambda: there.copy_(host), REPEATS, until),
        total / _best(lambda: there.copy_(pinned, non_blocking=True), REPEATS, until),
        total / _best(lambda: pinned.copy_(there, non_blocking=True), REPEATS, until),
    )


def _dispatch_us(until: float) -> float:
    """Microseconds of the smallest operator on the CPU: almost all of it is dispatch."""
    import torch

    tiny = torch.zeros(1)

    def calls() -> None:
        for _ in range(DISPATCHES):
            tiny.add_(1)

    with torch.no_grad():
        return 1e6 * _best(calls, 3, until) / DISPATCHES


def _best(work: Callable[[], object], repeats: int, until: float = math.inf) -> float:
    """Seconds of the fastest repetition, the first one left out."""
    return _best_in_turn(work, repeats=repeats, until=until)[0]


def _best_in_turn(
    *works: Callable[[], object], repeats: int = REPEATS, until: float = math.inf
) -> list[float]:
    """Seconds of the fastest repetition of each; they are repeated in turn, none once ``until`` has passed.

    The first round is left out, unless there was no time for another.
    """
    rounds = [[_seconds(work) for work in works]]
    while len(rounds) <= repeats and time.monotonic() < until:
        rounds.append([_seconds(work) for work in works])
    return [min(times) for times in zip(*(rounds[1:] or rounds), strict=True)]


def _seconds(work: Callable[[], object]) -> float:
    import torch

    cuda = torch.cuda.is_initialized()
    if cuda:
        torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - began
