"""What torch's fused attention takes at given shapes, on the device and with the threads of this process."""

import time
from collections.abc import Sequence

REPEATS = 7
MOST_SHAPES = 8
MOST_BYTES = 2**28  # of one operand; larger ones are left out


def fused_ms(
    shapes: Sequence[Sequence[int]], dtypes: Sequence[str | None], *, device: str, limit_s: float
) -> list[float | None]:
    """Milliseconds of one forward of ``scaled_dot_product_attention`` that records its graph, by shape.

    The median of a few calls, without a mask and without dropout.

    Args:
        shapes: Batch, heads, queries, keys and the width of a head.
        dtypes: torch's names of the operands' types, ``None`` for float32.
        device: Where to compute.
        limit_s: Seconds after which no further shape is begun.

    Returns:
        ``None`` for what was not measured.
    """
    until = time.monotonic() + limit_s
    found: list[float | None] = []
    for shape, dtype in zip(shapes, dtypes, strict=True):
        wanted = len(shape) == 5 and len(found) < MOST_SHAPES and time.monotonic() < until
        found.append(_one(tuple(shape), dtype or "float32", device) if wanted else None)
    return found


def _one(shape: tuple[int, ...], dtype: str, device: str) -> float | None:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    batch, heads, queries, keys, width = shape
    kind = getattr(torch, dtype)
    if 4 * batch * heads * max(queries, keys) * width > MOST_BYTES:
        return None
    sizes = ((batch, heads, rows, width) for rows in (queries, keys, keys))
    query, key, value = (torch.ones(size, dtype=kind, device=device, requires_grad=True) for size in sizes)
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        scaled_dot_product_attention(query, key, value)
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return 1000 * sorted(times)[REPEATS // 2]
