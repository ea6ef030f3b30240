"""Backward computes gradients that are dropped before any update uses them."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.gradient_rule import GradientRule
from advisor.advice.rule import Family, percent
from advisor.profiles.facts.observed import GradientFacts
from advisor.profiles.facts.profile import StepPhases

THRESHOLD = 0.05  # of the step; set by experiment


class UnusedGradients(GradientRule):
    """A loss goes backward further than to what it trains, and the gradients there are zeroed unused.

    A discriminator that learns from what a generator made sends gradients through the whole generator, whose
    own update zeroes them first. The same happens behind a frozen target, a teacher or an encoder that
    another loss trains. Cut the graph: `fake.detach()`, or make such inputs under `torch.no_grad()`, which
    spares their graph as well. The ceiling is the time of the nodes that lead to nothing else; a module
    that the gradients must pass through is not counted.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "what becomes of gradients: a trace does not hold it"
    threshold = "at least 5 % of the step in nodes that lead to gradients nobody used (set by experiment)"
    explains = ("hot_line", "unattributed_time", "launch_bound", "contiguous_conv")

    def judge(self, gradients: GradientFacts, phases: StepPhases) -> Finding:
        share = gradients.vain_share * phases.share("backward")
        said = f"{percent(share)} of each step computes gradients that no update uses"
        if share < THRESHOLD:
            return self.passed(said)
        of = f" of `{gradients.vain_module}`" if gradients.vain_module else ""
        return self.opportunity(
            f"{said}: those{of} are dropped after the backward that made them",
            self.timeline(share),
            advice=f"Cut the graph before what this loss does not train: `.detach()` what comes out{of}, "
            "or compute it under `with torch.no_grad():`.",
            location=gradients.vain_location,
            evidence={"share_of_backward": round(gradients.vain_share, 3)},
        )
