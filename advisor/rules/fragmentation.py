"""The device's allocator holds far more memory than its tensors need."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

RATIO = 2.0  # reserved over allocated; TraceML
RESERVED = 0.30  # of the device, below which the difference does not matter; TraceML
FULL = 0.90  # of the device in tensors: from there a retry is pressure, not fragmentation


class Fragmentation(Rule):
    """Memory that torch reserved on the GPU lies in pieces that no new tensor fits into.

    Batches of varying shapes ask for blocks of varying sizes; freed blocks stay reserved, and a larger tensor
    needs new memory although enough is free in sum. In the end an allocation fails, and torch gives its whole
    cache back and starts again, which stops the device. Start the program with
    `PYTORCH_ALLOC_CONF=expandable_segments:True`, or run the largest shape first, so that its blocks serve
    the smaller ones.
    """

    family = Family.MEMORY
    kind = Kind.RISK
    on_traces = "device memory: a trace does not hold what the allocator reserved"
    threshold = (
        "reserved at least 2 times allocated and 30 % of the device (TraceML), "
        "or allocation retries with less than 90 % of the device in tensors (PyTorch tuning guide)"
    )
    knobs = ("alloc_conf",)
    timed = False

    def check(self, profile: Profile) -> Finding:
        memory = profile.memory
        if memory is None or memory.device_peak_bytes is None:
            return self.not_applicable("device memory", "needs a GPU")
        reserved, total = memory.device_reserved_bytes, memory.device_total_bytes
        if reserved is None or not total:
            return self.not_applicable("reserved device memory", "is read from torch's allocator")
        allocated = memory.device_peak_bytes
        retries = memory.allocation_retries or 0
        unused = max(0, reserved - allocated)
        title = f"{percent(unused / total)} of device memory is reserved beyond the peak of all tensors"
        wide = reserved >= RATIO * allocated and reserved >= RESERVED * total
        if not wide and not (retries and allocated < FULL * total):
            return self.passed(title)
        if not wide:
            title = (
                f"{retries} allocations failed at first, {percent(allocated / total)} of memory being in use"
            )
        varying = profile.loader.shapes_vary if profile.loader is not None else None
        return self.diagnostic(
            title,
            advice="Start the program with `PYTORCH_ALLOC_CONF=expandable_segments:True`, "
            "which lets reserved memory grow in place.",
            evidence={
                "reserved_bytes": reserved,
                "allocated_bytes": allocated,
                "allocation_retries": memory.allocation_retries,
                "batch_shapes_vary": varying,
            },
        )
