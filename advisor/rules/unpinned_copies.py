"""Batches are copied to the device from ordinary, pageable memory."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import clean_step_ms, share_of_step
from advisor.profiles.facts.profile import LoaderFacts, Profile

THRESHOLD = 0.05  # of the step (TraceLens)
MIB = 2**20


class UnpinnedCopies(Rule):
    """The device can read host memory by itself only where the system has promised not to move it.

    A copy from ordinary memory goes through such a pinned buffer first, in pieces, and the host waits until
    all of it is there. From pinned memory the device fetches the data on its own while both go on: with
    pinning and non-blocking copies together a published example fell from 0.65 to 0.46 s. Write
    `DataLoader(..., pin_memory=True)` and `batch.to(device, non_blocking=True)`. Pinned memory cannot be
    swapped out, and a tensor that is copied this way must not be changed until the copy has ended.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    threshold = (
        f"copies from pageable memory (Nsight Systems) at least {THRESHOLD:.0%} of the step (TraceLens)"
    )
    knobs = ("pin_memory", "non_blocking")
    explains = ("idle_device",)
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window = profile.window
        if window is None or window.device is None or clean_step_ms(profile) is None:
            return self.not_applicable("device timeline", "needs a GPU")
        copies = window.device.copy("h2d")
        if copies is None:
            return self.passed("0 copies to the device")
        if copies.pageable is None:
            return self.not_applicable("kind of host memory", "the trace does not name it")
        pageable_ms = copies.ms * copies.pageable
        share = share_of_step(profile, pageable_ms)
        title = f"{percent(share)} of each step copies to the device from pageable memory"
        if share < THRESHOLD:
            return self.passed(title)
        return self.opportunity(
            title,
            self.timeline(share_of_step(profile, pageable_ms * (1 - copies.overlapped))),
            advice=_advice(profile.loader),
            location=profile.loader.location if profile.loader is not None else None,
            evidence={
                "copies_per_step": round(copies.count, 1),
                "mib_per_step": round(copies.bytes / MIB, 3),
                "copy_ms": round(copies.ms, 4),
                "pageable": round(copies.pageable, 3),
                "overlapped": round(copies.overlapped, 3),
            },
        )


def _advice(loader: LoaderFacts | None) -> str:
    if loader is None or loader.pin_memory:
        return (
            "Copy from pinned memory: `x = x.pin_memory()` and `x.to(device, non_blocking=True)`; "
            "`x` must not change until the copy has ended."
        )
    return (
        "Pin batches and copy them without waiting: `DataLoader(..., pin_memory=True)` and "
        "`x.to(device, non_blocking=True)`; pinned memory cannot be swapped out."
    )
