"""All pairs are made as a tensor of their own, where a product of matrices gives what they add up to."""

from pathlib import PurePath

from advisor.advice.finding import Finding, Kind
from advisor.advice.line_rule import LineRule, paid
from advisor.advice.rule import Family, percent
from advisor.profiles.facts.observed import LineCalls
from advisor.profiles.facts.profile import Profile, StepPhases

THRESHOLD = 0.05  # of the step, as for results that nothing reads (set by experiment)
NEEDED = 0.5  # relative error of the ceiling: the product that takes its place costs something

INSTEAD = {
    "product": ("products", "`a @ b.mT`"),
    "cosine": ("cosines", "`F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).mT`"),
    "square": ("squared distances", "`torch.cdist(a, b).square()`"),
    "absolute": ("distances", "`torch.cdist(a, b, p=1)`"),
    "norm": ("distances", "`torch.cdist(a, b)`"),
}


class BroadcastPairs(LineRule):
    """Rows of two tensors meet by broadcasting, `a[:, None] - b[None]`, and are added up at once.

    Between the two lies a tensor with an element for every pair and every feature, which is written,
    squared, read and summed, and once more in backward. It is many times as large as both inputs and passes
    through memory each time. `torch.cdist` gives distances without it; sums of products are a product of
    matrices, which a processor does at its full speed. Sums round differently: distances that are nearly zero
    lose digits in the product that `torch.cdist` uses for more than 25 rows, unless it is told
    `compute_mode="donot_use_mm_for_euclid_dist"`.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "which line broadcasts what: a trace does not hold it"
    threshold = (
        "at least 5 % of the step makes pairs that are added up, 8 times as large as what they are "
        "made of (set by experiment)"
    )
    explains = ("hot_line", "unfused_pointwise", "page_fault_bound", "unattributed_time")

    def judge(self, profile: Profile, phases: StepPhases) -> Finding:
        """Judge a run whose lines are known."""
        lines = [line for line in profile.line_calls if line.reordered and line.reordered.kind in INSTEAD]
        share = _share(lines, phases)
        said = f"{percent(share)} of each step makes all pairs to add them up"
        worst = max(lines, key=lambda line: _share([line], phases), default=None)
        if share < THRESHOLD or worst is None or worst.reordered is None:
            return self.passed(said)
        pairs = worst.reordered
        what, instead = INSTEAD[pairs.kind]
        at = f"{PurePath(worst.location.file).name}:{worst.location.line}"
        times = f", {pairs.calls} times" if pairs.calls > 1 else ""
        return self.opportunity(
            f"{said}: {what} at {at} go through {pairs.elements:,} elements{times}",
            self.timeline(share, NEEDED),
            advice=f"Compute the {what} at {at} as {instead}, which makes no tensor of all pairs; "
            "sums round differently.",
            location=worst.location,
            evidence={
                "elements": pairs.elements,
                "times_per_step": pairs.calls,
                "what": what,
                "lines": [str(line.location) for line in lines],
            },
        )


def _share(lines: list[LineCalls], phases: StepPhases) -> float:
    return paid(((line, line.reordered.share) for line in lines if line.reordered is not None), phases)
