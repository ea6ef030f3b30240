"""The step waits for the device because the program says so."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import clean_step_ms, share_of_step
from advisor.profiles.facts.profile import Profile

EXPLICIT = frozenset({
    "synchronize", "device_synchronize", "stream_synchronize", "event_synchronize", "empty_cache",
})  # fmt: skip


class ExplicitSynchronize(Rule):
    """A call such as `torch.cuda.synchronize()` or `torch.cuda.empty_cache()` stands in the training loop.

    The host stops until the device has finished all its work, and only then prepares the next kernels, so
    the device stands still meanwhile. `empty_cache` also gives memory back that the next step must ask for
    again. Remove the call; to time a part of the step use `torch.cuda.Event(enable_timing=True)`, and read
    the events after the loop.
    """

    family = Family.SYNCHRONISATION
    kind = Kind.WASTE
    threshold = (
        "device idle after an explicit synchronise at least 2 % of the step (Nsight Systems cuda_api_sync)"
    )
    explains = ("idle_device",)
    recorded = True

    def check(self, profile: Profile) -> Finding:
        if not profile.device.startswith("cuda"):
            return self.not_applicable("device timeline", "needs a GPU")
        if profile.syncs is None or clean_step_ms(profile) is None:
            return self.not_applicable("synchronising calls", "need steps recorded on a GPU")
        explicit = [sync for sync in profile.syncs if sync.kind in EXPLICIT and sync.where == "user"]
        if not explicit:
            return self.passed("0 calls of the step synchronise the device explicitly")
        timed = [(sync.idle_ms, sync) for sync in explicit if sync.idle_ms is not None]
        if not timed:
            return self.not_applicable("device idle after each synchronise", "needs a device timeline")
        share = share_of_step(profile, sum(idle_ms for idle_ms, _ in timed))
        _, worst = max(timed, key=lambda pair: pair[0])
        place = f" at {worst.location}" if worst.location else ""
        return self.opportunity(
            f"{percent(share)} of each step leaves the device idle after an explicit `{worst.kind}`",
            self.timeline(share),
            advice=f"Remove `{worst.kind}()`{place}; to time a part of the step, record "
            "`torch.cuda.Event(enable_timing=True)` and read the events after the loop.",
            location=worst.location,
            evidence={
                "idle_ms": round(sum(idle_ms for idle_ms, _ in timed), 4),
                "calls": [
                    {"kind": sync.kind, "place": str(sync.location or ""), "per_step": sync.count_per_step}
                    for sync in explicit
                ],
            },
        )
