"""The host reads a value from the device in the middle of a step."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import clean_step_ms, share_of_step
from advisor.profiles.facts.observed import SyncPoint
from advisor.profiles.facts.profile import Profile
from advisor.rules.explicit_synchronize import EXPLICIT

THRESHOLD = 0.03  # of the step; TensorFlow's profiler warns of device idle from the host from there
VALUES = frozenset({
    "item", "float", "int", "bool", "print", "format", "repr", "tolist", "equal", "is_nonzero",
})  # fmt: skip
BY_VALUE = frozenset({"nonzero", "masked_select", "index", "unique", "where"})


class SyncPoints(Rule):
    """A call such as `loss.item()`, `float(t)`, `if t:`, `print(t)` or `x[mask]` stands in the loop.

    The host usually runs ahead of the device and hands it kernels in advance. Such a call needs a value that
    the device has still to compute: the host waits, nothing new is handed over, and the device stands still
    until the next kernels arrive. Read values every N steps, or add them up on the device
    (`total += loss.detach()`) and read the sum once. Calls inside `optimizer.step()` and inside the loader
    are not counted here, and on a CPU such calls cost next to nothing.
    """

    family = Family.SYNCHRONISATION
    kind = Kind.WASTE
    threshold = (
        "device idle after synchronising calls at least 3 % of the step (TensorFlow profiler, host idle)"
    )
    explains = ("idle_device",)
    recorded = True

    def check(self, profile: Profile) -> Finding:
        if not profile.device.startswith("cuda"):
            return self.not_applicable("device timeline", "needs a GPU")
        if profile.syncs is None or clean_step_ms(profile) is None:
            return self.not_applicable("synchronising calls", "need steps recorded on a GPU")
        own = [sync for sync in profile.syncs if sync.where == "user" and sync.kind not in EXPLICIT]
        if not own:
            return self.passed("0 calls of the step wait for a value from the device")
        timed = [(sync.idle_ms, sync) for sync in own if sync.idle_ms is not None]
        if not timed:
            return self.not_applicable("device idle after each call", "needs a device timeline")
        idle_ms = sum(spent for spent, _ in timed)
        share = share_of_step(profile, idle_ms)
        title = f"{percent(share)} of each step leaves the device idle after the host waited for a value"
        if share < THRESHOLD:
            return self.passed(title)
        _, worst = max(timed, key=lambda pair: pair[0])
        return self.opportunity(
            title,
            self.timeline(share),
            advice=_advice(worst),
            location=worst.location,
            evidence={
                "idle_ms": round(idle_ms, 4),
                "calls": [
                    {
                        "kind": sync.kind,
                        "place": str(sync.location or ""),
                        "per_step": sync.count_per_step,
                        "idle_ms": round(spent, 4),
                    }
                    for spent, sync in sorted(timed, key=lambda pair: -pair[0])
                ],
            },
        )


def _advice(sync: SyncPoint) -> str:
    place = f" at {sync.location}" if sync.location else ""
    if sync.kind in VALUES:
        return (
            f"Read the value{place} every 50 steps only, "
            "and add it up on the device meanwhile: `total += loss.detach()`."
        )
    if sync.kind in BY_VALUE:
        return (
            f"Replace `{sync.kind}`{place}, whose result has a size that the host must wait for, "
            "by `torch.where(mask, x, 0)`, which keeps the shape."
        )
    return f"Move the `{sync.kind}` call{place} out of the step, or make it every 50 steps only."
