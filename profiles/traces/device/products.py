"""The largest matrix products of a device: sizes, time of their kernels, arithmetic per second."""

from collections.abc import Iterator

import numpy as np

from advisor.profiles.facts.recorded import Product
from advisor.profiles.traces.calls import Calls
from advisor.profiles.traces.equal_rows import alike
from advisor.profiles.traces.flops import LINEAR, PRODUCTS
from advisor.profiles.traces.signatures import Signature, elements

MOST_PRODUCTS = 8


def products(calls: Calls) -> tuple[Product, ...]:
    """Products by operator, sizes and type, those with the longest time on the device first.

    Only operators that launched kernels themselves are told: what calls them passes on, and of kernels in
    a graph nobody knows the sizes. ``tflops`` is the mean over calls of 2 m n k over the time of a call's
    kernels, as TraceLens defines it.
    """
    return tuple(sorted(_products(calls), key=lambda each: -each.kernel_us)[:MOST_PRODUCTS])


def _products(calls: Calls) -> Iterator[Product]:
    rows = np.flatnonzero(calls.op & calls.among((*PRODUCTS, *LINEAR)) & (calls.kernel_us > 0))
    rows = rows[calls.step[rows] >= 0]
    kernel_us = calls.kernel_us[rows]
    kinds = alike(calls.name[rows], calls.signature[rows])
    spent = np.bincount(kinds.group, kernel_us)
    rate = np.bincount(kinds.group, 1 / kernel_us) / np.maximum(kinds.count, 1)
    for at, number in enumerate(kinds.first.tolist()):
        row = int(rows[number])
        name, signature = calls.trace.names[calls.name[row]], calls.signature_of(row)
        sizes = _sizes(name, signature)
        if sizes is None:
            continue
        batch, m, n, k = sizes
        yield Product(
            op=name,
            m=m,
            n=n,
            k=k,
            batch=batch,
            dtype=signature.dtypes[PRODUCTS.get(name, 0)] or "",
            calls=int(kinds.count[at]) / calls.steps.count,
            kernel_us=float(spent[at]) / calls.steps.count,
            tflops=2e-6 * batch * m * n * k * float(rate[at]),
        )


def _sizes(name: str, signature: Signature) -> tuple[int, int, int, int] | None:
    """Batch, m, n and k of (m, k) times (k, n); ``None`` where the shapes do not tell."""
    first = PRODUCTS.get(name, 0)
    if len(signature.shapes) < first + 2:
        return None
    left, right = signature.shapes[first : first + 2]
    if name in LINEAR:
        right = right[::-1]
    if len(left) < 1 or len(right) < 1 or left[-1] != right[max(len(right) - 2, 0)]:
        return None
    n = right[-1] if len(right) > 1 else 1
    if len(right) > 2 and len(left) > 2:
        return elements(left[:-2]), left[-2], n, left[-1]
    return 1, elements(left[:-1]), n, left[-1]
