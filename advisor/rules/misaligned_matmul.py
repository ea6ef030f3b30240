"""A 16-bit matrix product has a size that tensor cores cannot read in whole pieces."""

from math import ceil, prod
from statistics import median

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import (
    LOW,
    NO_RATE,
    UNTYPED,
    capability,
    matmuls,
    share_of_compute,
    share_of_step,
    sides,
    spent_ms,
    untyped,
)
from advisor.profiles.derived.roofline import least_ms
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import OpCost, Window

MULTIPLE = 8  # elements of 16 bits that tensor cores read at once (torch's pattern matcher, tuning guide)
VOCABULARY_MULTIPLE = 64  # of a layer as wide as the vocabulary; nanoGPT pads 50257 to 50304
LIKE = 4.0  # products within this factor of work run at comparable rates; set by experiment


class MisalignedMatmul(Rule):
    """A layer's size is no multiple of 8, so its 16-bit matrix products miss the fast path of tensor cores.

    Tensor cores read eight 16-bit numbers at a time. Where a row does not end on such a border the library
    takes a slower kernel; a vocabulary of 50257 is the usual example. Pad the size: 50304 entries in
    `nn.Embedding` and `nn.Linear` compute faster than 50257 do, and the added ones are never used as labels.
    Sizes that come from the batch alone are left out, since they do not change how rows are laid out.
    """

    family = Family.COMPUTE
    kind = Kind.HEADROOM
    threshold = (
        "a 16-bit product with a size that is no multiple of 8, a vocabulary of 64 (torch pattern matcher)"
    )
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window = profile.window
        if not profile.device.startswith("cuda"):
            return self.not_applicable("tensor cores", "need a GPU")
        if window is None or not window.ops:
            return self.not_applicable("operators", "need steps recorded by torch.profiler")
        units = capability(profile)
        if units is None or units < (7, 0):
            return self.not_applicable("tensor cores", "need a GPU of capability 7.0")
        if untyped(window):
            return self.not_applicable("types of operators", UNTYPED)
        products = matmuls(window, *LOW)
        if not products:
            return self.passed("0.0 % of compute multiplies 16-bit matrices")
        if not any(sides(op) for op in products):
            return self.not_applicable("sizes of matrix products", "need a window with shapes")
        padded = _padded(window, profile)
        missing = [op for op in products if padded.keys() & set(sides(op) or ())]
        ms = spent_ms(missing)
        title = f"{percent(share_of_compute(window, ms))} of compute multiplies unaligned 16-bit matrices"
        if not missing:
            return self.passed(title)
        aligned = [op for op in products if op not in missing]
        saved = [_saved_ms(op, aligned, padded, profile) for op in missing]
        known = [each for each in saved if each is not None]
        if not known:
            return self.not_applicable("rate of aligned products", NO_RATE)
        heaviest = max(missing, key=lambda op: op.self_ms)
        size = max(padded.keys() & set(sides(heaviest) or ()))
        return self.opportunity(
            title,
            self.modelled(share_of_step(profile, sum(known))),
            advice=f"Pad the size {size} to {padded[size]} where the layer is built, "
            "which changes the shape of its saved weights.",
            location=heaviest.location,
            evidence={
                "unaligned_ms": round(ms, 4),
                "sizes": {str(old): new for old, new in sorted(padded.items())},
                "heaviest": heaviest.name,
            },
        )


def _padded(window: Window, profile: Profile) -> dict[int, int]:
    """Sizes to pad, with what they become. The rows of a forward product come from the batch: not those."""
    vocabularies = {table.rows for root in profile.roots for table in root.embeddings}
    found = {}
    for op in matmuls(window, *LOW):
        product = sides(op)
        if product is None or op.phase != "forward":
            continue
        for size in product[1:]:
            multiple = VOCABULARY_MULTIPLE if size in vocabularies else MULTIPLE
            if size % multiple:
                found[size] = multiple * ceil(size / multiple)
    return found


def _saved_ms(op: OpCost, aligned: list[OpCost], padded: dict[int, int], profile: Profile) -> float | None:
    """Its time, less that of the padded product at the rate of aligned ones of like work.

    Without such ones it is the measured rate, or by a data sheet the least time by arithmetic and traffic.
    """
    product = sides(op)
    if product is None:
        return None
    batch = prod(max(op.shapes, key=len)[:-2])
    work = 2.0 * batch * prod(product)
    grown = 2.0 * batch * prod(padded.get(size, size) for size in product)
    rates = [
        rate
        for other in aligned
        for rate, size in [_rate(other)]
        if rate and work / LIKE < size < work * LIKE
    ]
    limits = profile.rates
    if not rates and limits is not None and limits.source:
        least = least_ms(op, limits, op.dtype or "", grown / work)
        return None if least is None else max(0.0, op.self_ms - least)
    rate = median(rates) if rates else limits and limits.flops(op.dtype or "")
    if not rate:
        return None
    return max(0.0, op.self_ms - 1000 * grown * op.calls / rate)


def _rate(op: OpCost) -> tuple[float, float]:
    """FLOP/s of a product and the work of one call."""
    product = sides(op)
    if product is None or op.self_ms <= 0:
        return 0.0, 0.0
    work = 2.0 * prod(max(op.shapes, key=len)[:-2]) * prod(product)
    return 1000 * work * op.calls / op.self_ms, work
