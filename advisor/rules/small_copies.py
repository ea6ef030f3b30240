"""Many small copies between host and device where one would do."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import clean_step_ms, share_of_step
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import Copies

MANY = 10  # transfers per step (TraceLens)
LIKE = 3  # equal copies one right after another (RatelProf)
LAUNCH_MS = 0.005  # from one short copy to the next, where gaps were not measured; published for CUDA


class SmallCopies(Rule):
    """Each copy is started by itself, and starting one takes longer than copying a few kilobytes.

    Batches of many small tensors, parameters of the loss, or values that are read one by one each pay for
    that. Join them on one side and take them apart on the other:
    `together = torch.cat([a.flatten(), b.flatten()]).to(device)`, or keep constants on the device from the
    beginning. Values for the log are stacked there and read once: `torch.stack(losses).tolist()`.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    threshold = (
        f"more than {MANY} transfers per step (TraceLens), or {LIKE} equal short ones in a row (RatelProf)"
    )
    knobs = ("device_prefetcher",)
    explains = ("idle_device",)
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window = profile.window
        if window is None or window.device is None or clean_step_ms(profile) is None:
            return self.not_applicable("device timeline", "needs a GPU")
        transfers = [each for each in window.device.copies if each.direction in ("h2d", "d2h")]
        count = sum(copies.count for copies in transfers)
        if count <= MANY and all(copies.like < LIKE for copies in transfers):
            return self.passed(f"{count:.0f} copies between host and device per step")
        gaps_ms = sum(_gaps_ms(copies) for copies in transfers)
        share = share_of_step(profile, gaps_ms)
        worst = max(transfers, key=lambda copies: copies.count)
        return self.opportunity(
            f"{percent(share)} of each step starts {count:.0f} copies between host and device",
            self.modelled(share),
            advice=_advice(worst),
            location=profile.loader.location
            if profile.loader is not None and worst.direction == "h2d"
            else None,
            evidence={
                copies.direction: {
                    "per_step": round(copies.count, 1),
                    "bytes_per_copy": round(copies.bytes / copies.count) if copies.count else 0,
                    "alike_in_a_row": copies.like,
                    "gaps_ms": round(copies.like_gap_ms, 4),
                }
                for copies in transfers
            },
        )


def _gaps_ms(copies: Copies) -> float:
    """Time between the copies of a step: as measured in the longest row, and a launch for each other one."""
    return copies.like_gap_ms + LAUNCH_MS * max(0.0, copies.count - max(1, copies.like))


def _advice(copies: Copies) -> str:
    if copies.direction == "h2d":
        return (
            "Join small tensors before the copy: `torch.cat([a.flatten(), b.flatten()]).to(device)`, "
            "and split them there."
        )
    return "Stack values on the device and read them once: `torch.stack(values).tolist()`."
