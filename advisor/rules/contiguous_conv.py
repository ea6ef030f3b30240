"""Convolutions read images in a layout that their kernels must reorder."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import (
    CONVOLUTIONS,
    TILE,
    computing,
    convolved,
    dense,
    share_of_compute,
    share_of_step,
    spent_ms,
)
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import OpCost, Window

THRESHOLD = 0.20  # of compute; set by experiment
MAINLY = 0.5  # of the time in convolutions
REORDERED = 0.05
"""Of compute, in kernels that reorder: from there on images are not in the layout that the kernels want.
Public traces of residual networks show 13 to 20 %, or under 0.2 %."""


class ContiguousConv(Rule):
    """Images lie in memory channel by channel (NCHW), while most convolution kernels want pixel by pixel.

    The library then converts inputs and results around the kernels, or takes a slower kernel. Store model
    and images with `memory_format=torch.channels_last` (`channels_last_3d` for volumes); shapes and code stay
    the same, and autocast gains more from it than float32. Grouped and depthwise convolutions can get slower
    by it, so a model that mainly uses those is left alone; so are convolutions over fewer than 8 channels.
    """

    family = Family.COMPUTE
    kind = Kind.HEADROOM
    threshold = "dense 4-D or 5-D convolutions of NCHW input at least 20 % of compute (set by experiment)"
    knobs = ("channels_last",)
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window = profile.window
        if window is None or not window.ops:
            return self.not_applicable("operators", "need steps recorded by torch.profiler")
        every = [op for op in computing(window, CONVOLUTIONS) if _of_images(op)]
        share = share_of_compute(window, spent_ms(every))
        title = f"{percent(share)} of compute convolves images stored channel by channel"
        if share < THRESHOLD:
            return self.passed(title)
        layouts = [root.channels_last for root in profile.roots if root.channels_last is not None]
        if not layouts and not _reorders(window):
            return self.not_applicable("memory layout of the model", "is read from its parameters")
        if any(layouts):
            return self.passed(f"{percent(share)} of compute convolves images, in channels_last already")
        grouped = 1 - spent_ms(op for op in every if dense(op)) / spent_ms(every)
        if grouped > MAINLY:
            return self.passed(f"{percent(grouped)} of the time in convolutions is grouped or depthwise")
        heaviest = max(every, key=lambda op: op.self_ms)
        volumes = len((convolved(heaviest) or ((), ()))[0]) == 5
        layout = "torch.channels_last_3d" if volumes else "torch.channels_last"
        advice = (
            f"Store model and input as `.to(memory_format={layout})`, "
            "which draws other dropout masks and makes `view` on feature maps fail."
        )
        location = next((root.location for root in profile.roots if root.location), heaviest.location)
        evidence = {"convolutions_ms": round(spent_ms(every), 4), "grouped_share": round(grouped, 3)}
        if not profile.device.startswith("cuda"):
            return self.diagnostic(title, advice=advice, location=location, evidence=evidence)
        if window.device is None:
            return self.not_applicable("device timeline", "needs steps recorded on a GPU")
        layout_ms = window.device.layout_ms
        return self.opportunity(
            f"{title}, and {percent(share_of_step(profile, layout_ms))} of each step reorders them",
            self.timeline(share_of_step(profile, layout_ms)),
            advice=advice,
            location=location,
            evidence={**evidence, "layout_ms": round(layout_ms, 4)},
        )


def _reorders(window: Window) -> bool:
    """Whether kernels on a device tell the layout."""
    return window.device is not None and window.device.layout_ms >= REORDERED * window.compute_ms > 0


def _of_images(op: OpCost) -> bool:
    """Whether it is 2-D or 3-D over enough channels for their order to matter, as far as shapes say."""
    shapes = convolved(op)
    if shapes is None:
        return True
    inputs, weight = shapes
    sequence = len(inputs) == 4 and inputs[2] == 1 and weight[2] == 1  # 1-D ones get a height of 1 on the way
    return len(inputs) in (4, 5) and not sequence and min(inputs[1], weight[0]) >= TILE
