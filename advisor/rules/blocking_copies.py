"""Copies between host and device hold up the step."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import clean_step_ms, share_of_step
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import Copies

LARGE_BYTES = 64 * 2**10  # of a copy that the host waits for (Nsight Systems)
SHARE = 0.10  # of the step (TraceML)
LONG_MS = 0.1  # for one copy, and
OVERLAPPED = 0.50  # share of its time under compute (RatelProf)
NAMES = {"h2d": "to the device", "d2h": "to the host", "memset": "that fill device memory"}
READS = frozenset({"cpu", "to", "numpy", "tolist"})  # what copies many values to the host
MIB = 2**20


class BlockingCopies(Rule):
    """A copy that nothing else runs beside adds its whole length to the step.

    The host waits for `x.to(device)` and `y.cpu()` until the copy has ended, so it launches nothing
    meanwhile; and on the stream that computes, kernels stand in line behind each copy. Copy without
    waiting, `x.to(device, non_blocking=True)` from pinned memory, and fetch the next batch ahead on a side
    stream, `with torch.cuda.stream(side):`. What is copied to the host without waiting may be read only
    after `torch.cuda.synchronize()` or an event. Copies from pageable memory are the matter of
    `unpinned_copies`.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    threshold = (
        f"synchronous copies above {LARGE_BYTES // 1024} KiB (Nsight Systems), copies of {SHARE:.0%} of the "
        f"step (TraceML), or above {LONG_MS} ms and overlapped below {OVERLAPPED:.0%} (RatelProf)"
    )
    knobs = ("non_blocking", "pin_memory", "device_prefetcher")
    explains = ("idle_device",)
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window = profile.window
        if window is None or window.device is None or clean_step_ms(profile) is None:
            return self.not_applicable("device timeline", "needs a GPU")
        found = [copies for copies in window.device.copies if _blocks(profile, copies)]
        if not found:
            between = sum(each.ms for each in window.device.copies if each.direction in NAMES)
            share = share_of_step(profile, between)
            return self.passed(f"{percent(share)} of each step copies between host and device, none blocks")
        share = share_of_step(profile, sum(_exposed_ms(copies) for copies in found))
        worst = max(found, key=_exposed_ms)
        names = " and ".join(NAMES[copies.direction] for copies in found)
        return self.opportunity(
            f"{percent(share)} of each step is copies {names} that nothing overlaps",
            self.timeline(share),
            advice=_advice(worst),
            location=_place(profile, worst),
            evidence={
                copies.direction: {
                    "per_step": round(copies.count, 1),
                    "ms": round(copies.ms, 4),
                    "mib": round(copies.bytes / MIB, 3),
                    "overlapped": round(copies.overlapped, 3),
                    "synchronous": copies.synchronous,
                }
                for copies in found
            },
        )


def _blocks(profile: Profile, copies: Copies) -> bool:
    if copies.direction not in NAMES or _exposed_ms(copies) <= 0:
        return False
    if copies.synchronous and copies.largest_synchronous_bytes > LARGE_BYTES:
        return True
    if copies.direction == "memset":
        return False
    long = copies.count > 0 and copies.ms / copies.count > LONG_MS
    return share_of_step(profile, copies.ms) >= SHARE or (long and copies.overlapped < OVERLAPPED)


def _exposed_ms(copies: Copies) -> float:
    """Time that compute does not cover, of copies to the device only those from pinned memory."""
    pageable = copies.pageable or 0.0 if copies.direction == "h2d" else 0.0
    return copies.ms * (1 - copies.overlapped) * (1 - pageable)


def _place(profile: Profile, copies: Copies) -> Location | None:
    if copies.direction == "d2h":
        reads = [sync for sync in profile.syncs or () if sync.where == "user" and sync.kind in READS]
        return max(reads, key=lambda sync: sync.blocked_ms or 0.0).location if reads else None
    if copies.direction == "h2d" and profile.loader is not None:
        return profile.loader.location
    return None


def _advice(copies: Copies) -> str:
    if copies.direction == "memset":
        return "Fill device memory without waiting for it: `x.zero_()` in place of a blocking call."
    if copies.direction == "d2h":
        return (
            "Copy results to pinned memory without waiting: `buffer.copy_(y, non_blocking=True)`, and read "
            "the buffer after an event has said that it is there."
        )
    if copies.synchronous:
        return "Copy without waiting: `x.to(device, non_blocking=True)`, from pinned memory."
    return (
        "Copy the next batch while this one computes: `with torch.cuda.stream(side): "
        "following = x.to(device, non_blocking=True)`, which takes the memory of one more batch."
    )
