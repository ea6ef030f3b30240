"""How near kernels and a step come to what the device can do (Williams et al., Roofline, CACM 2009)."""

from collections.abc import Iterable
from typing import Literal

from advisor.profiles.derived.eligibility import LOW, clean_step_ms
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.recorded import Attention, KernelCost, OpCost, Product

Limit = Literal["arithmetic", "memory"]
MULTIPLYING = ("gemm", "convolution", "attention")
FUSED_REACHES = 0.25
"""Share of peak that a fused attention is trusted to reach: FlashAttention-2 reaches 0.3 to 0.73 forward
(Dao, 2023, figures 4 to 7, for heads of 64 and 128 and 512 positions and more), older kernels less."""

KNOWN = 0.9  # of the time of products, at least, must have known sizes: what is missing lowers the share


def reached(kernel: KernelCost, rates: Rates | None) -> tuple[float, Limit] | None:
    """Share (0 to 1) of the roofline, and which limit is nearer: ``arithmetic`` or ``memory``.

    ``None`` where the work of its operator or the limits are not known. What lies in a cache can pass 1.
    """
    if rates is None:
        return None
    peak = rates.flops(kernel.dtype) if kernel.dtype else None
    shares: list[tuple[float, Limit]] = []
    if peak and kernel.flops_per_s:
        shares.append((kernel.flops_per_s / peak, "arithmetic"))
    if rates.memory_sequential and kernel.bytes_per_s:
        shares.append((kernel.bytes_per_s / rates.memory_sequential, "memory"))
    return max(shares, default=None)


def reached_by_kind(kernels: Iterable[KernelCost], rates: Rates | None) -> dict[str, float]:
    """The same for all kernels of a kind together, weighted by their time; those without a share left out."""
    spent: dict[str, float] = {}
    least: dict[str, float] = {}
    for kernel in kernels:
        share = reached(kernel, rates)
        if share is not None:
            spent[kernel.kind] = spent.get(kernel.kind, 0.0) + kernel.us
            least[kernel.kind] = least.get(kernel.kind, 0.0) + kernel.us * share[0]
    return {kind: least[kind] / us for kind, us in spent.items() if us > 0}


def product_reached(product: Product, rates: Rates | None) -> float | None:
    """Share of the peak of its type that a matrix product reaches."""
    peak = None if rates is None else rates.flops(product.dtype)
    return 1e12 * product.tflops / peak if peak else None


def utilisation(profile: Profile) -> float | None:
    """MFU: the time that the arithmetic of a step would take at the peak of its types, over the step.

    What is recomputed in backward does not count (Chowdhery et al., PaLM, appendix B). ``None`` without a
    device or its limits, and where the work of too many products is not known, as with graphs.
    """
    window, rates, step_ms = profile.window, profile.rates, clean_step_ms(profile)
    if window is None or window.device is None or rates is None or not step_ms or not window.work:
        return None
    multiplying = [kernel for kernel in window.device.heaviest if kernel.kind in MULTIPLYING]
    told = sum(kernel.us for kernel in multiplying if kernel.flops_per_s is not None)
    if told < KNOWN * sum(kernel.us for kernel in multiplying):
        return None
    known = [(flops, rates.flops(dtype)) for dtype, flops in window.work]
    seconds = sum(flops / peak for flops, peak in known if peak)
    return 1000 * seconds / step_ms if seconds else None


def least_ms(op: OpCost, rates: Rates, dtype: str, grown: float = 1.0) -> float | None:
    """Milliseconds per step that an operator takes at least in ``dtype``, by arithmetic and by traffic.

    Args:
        op: With its FLOP and bytes per call.
        rates: Limits of the device.
        dtype: A type as in ``Rates``.
        grown: By how much its arithmetic and traffic are larger than recorded.
    """
    peak = rates.flops(dtype)
    if not peak or not op.flops:
        return None
    seconds = op.flops / peak
    if op.bytes and rates.memory_sequential:
        seconds = max(seconds, op.bytes / rates.memory_sequential)
    return 1000 * grown * seconds * op.calls


def fused_attention_ms(attention: Attention, rates: Rates | None) -> float | None:
    """Milliseconds per step that a fused attention needs at these shapes, by what such kernels reach.

    Two products of queries, keys and the width of a head; it reads queries, keys and values and writes as
    much as the queries, at half the speed of memory. ``None`` without shapes or limits.
    """
    dtype = attention.dtype or "float32"
    peak = None if rates is None else rates.flops(dtype)
    if rates is None or not peak or not rates.memory_sequential or len(attention.shape) != 5:
        return None
    batch, heads, queries, keys, width = attention.shape
    size = 2 if dtype in LOW else 4
    arithmetic = 4 * batch * heads * queries * keys * width / (FUSED_REACHES * peak)
    traffic = size * batch * heads * 2 * (queries + keys) * width / (rates.memory_sequential / 2)
    return 1000 * max(arithmetic, traffic) * attention.count
