"""Tensors are filled on the host and then copied to the device."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import share_of_step
from advisor.profiles.facts.profile import Profile


class CreatedOnHost(Rule):
    """A tensor is created on the host in each step and moved right after, as in `torch.zeros(n).to(device)`.

    The host fills it, and the copy from ordinary memory makes the host wait; the device could have filled it
    by itself in a few microseconds. Pass the device at creation: `torch.zeros(n, device=device)`. Random
    tensors made on the device come from another generator, so their values differ.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    threshold = "filling and copying at least 2 % of the step (the pattern is torch's pattern matcher's)"
    explains = ("idle_device",)
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window = profile.window
        if window is None or window.device is None:
            return self.not_applicable("device timeline", "needs a GPU")
        device = window.device
        share = share_of_step(profile, device.fill_copy_ms)
        place = f" at {device.fill_location}" if device.fill_location else ""
        return self.opportunity(
            f"{percent(share)} of each step fills tensors on the host and copies them to the device",
            self.timeline(share),
            advice=f"Create the tensor on the device{place}: `torch.zeros(..., device=device)`, "
            "which draws other values where it is random.",
            location=device.fill_location,
            evidence={"fill_copy_ms": round(device.fill_copy_ms, 4), "copies_per_step": device.fill_copies},
        )
