"""Losses that share a graph go backward one after the other."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.gradient_rule import GradientRule
from advisor.advice.rule import Family, percent
from advisor.profiles.facts.observed import GradientFacts
from advisor.profiles.facts.profile import StepPhases

THRESHOLD = 0.05  # of the step; set by experiment


class SeparateBackwards(GradientRule):
    """Each loss calls `backward(retain_graph=True)`, and each goes through the part that they share anew.

    Gradients are linear: what several backwards add up in `.grad` before the update is what one backward of
    the sum of the losses brings, so with six heads on one trunk five of six passes through the trunk are
    superfluous. Keeping the graph for the next pass costs memory, too. Add the losses and call `backward`
    once. Where something reads the gradients of each loss by itself, or they are set to zero in between,
    nothing is said. The ceiling is the time of all nodes that were gone through before.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "which nodes backwards share: a trace does not hold it"
    threshold = "at least 5 % of the step in nodes that the same update went through before (by experiment)"
    explains = ("hot_line", "unattributed_time", "launch_bound", "contiguous_conv")

    def judge(self, gradients: GradientFacts, phases: StepPhases) -> Finding:
        share = gradients.again_share * phases.share("backward")
        said = f"{percent(share)} of each step goes backward through what was gone through"
        if share < THRESHOLD:
            return self.passed(said)
        return self.opportunity(
            f"{said}: {gradients.per_update:.2g} backwards before each update share a graph",
            self.timeline(share),
            advice="Add the losses up and call backward once, `sum(losses).backward()`, without "
            "`retain_graph=True`; sums may round differently.",
            location=gradients.again_location,
            evidence={
                "backwards_per_update": round(gradients.per_update, 2),
                "share_of_backward": round(gradients.again_share, 3),
            },
        )
