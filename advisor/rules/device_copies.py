"""A device spends part of the step on moving tensors within its own memory."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import share_of_step
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import KernelCost

THRESHOLD = 0.05  # of the step; set by experiment: 0 to 3 % in public traces without such a fault
COPYING = ("aten::copy_", "aten::clone", "aten::contiguous")
MEMCPY = "Memcpy DtoD"
CONVERTS = ("WithCast", "float16_copy", "float8", "Memcpy", "Memset")
"""In names of what these operators launch besides plain copies."""


class DeviceCopies(Rule):
    """A copy from one place of the device's memory to another computes nothing, and waits for memory twice.

    Copies come from `clone()` and `contiguous()`, from `reshape` of what was transposed or expanded, from
    results that are put into a prepared tensor (`cache[:, at] = x`), and from gradients that
    `DistributedDataParallel` puts into its buckets (`gradient_as_bucket_view=True` leaves these out). Many
    small ones cost a launch each. Copies that convert numbers are not counted.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    threshold = "copies within the device at least 5 % of the step (set by experiment)"
    explains = ("unfused_pointwise",)
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window = profile.window
        if window is None or window.device is None:
            return self.not_applicable("device timeline", "needs a GPU")
        copies = [each for each in window.device.heaviest if _copies(each)]
        ms, count = sum(each.us for each in copies) / 1000, sum(each.calls for each in copies)
        share = share_of_step(profile, ms)
        title = f"{percent(share)} of each step copies tensors within the device, {count:.0f} times"
        if share < THRESHOLD:
            return self.passed(title)
        heaviest = max(copies, key=lambda each: each.us)
        return self.opportunity(
            title,
            self.timeline(share),
            advice=_advice(heaviest, wrapped=bool(window.wrapped and profile.ranks)),
            location=heaviest.location,
            evidence={
                "copies_per_step": round(count, 1),
                "copies_ms": round(ms, 4),
                "largest": {"kernel": heaviest.name, "operator": heaviest.op, "us": round(heaviest.us, 1)},
            },
        )


def _copies(kernel: KernelCost) -> bool:
    if kernel.name.startswith(MEMCPY):
        return True
    return kernel.op in COPYING and not any(mark in kernel.name for mark in CONVERTS)


def _advice(heaviest: KernelCost, *, wrapped: bool) -> str:
    place = f" at {heaviest.location}" if heaviest.location else ""
    if not heaviest.name.startswith(MEMCPY):
        return (
            f"Copy less{place}: take `view` where it will do in place of `contiguous()`, `clone()` or a "
            "`reshape` of what was transposed or expanded."
        )
    if wrapped:
        return (
            "Keep gradients in the buckets: `DistributedDataParallel(..., gradient_as_bucket_view=True)`; "
            "gradients are then views, which no `detach_()` may touch."
        )
    return (
        f"Write results{place} where they are wanted, as with `out=` or one tensor for many small ones, in "
        "place of copying them there."
    )
