"""A model answers requests in training mode."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile


class TrainModeInference(Rule):
    """A model is in training mode until it is told otherwise, and then some layers answer differently.

    Dropout goes on dropping, so the same request gets another answer each time. Batch norm takes mean and
    variance from the request, so an answer depends on what else is in its batch, and each request moves the
    running statistics that were learnt. Convolutions cannot be folded with their batch norm. Call
    `model.eval()` once after loading. A model without such layers answers the same in both modes, and one
    that drops on purpose (Monte Carlo dropout) is right as it is.
    """

    family = Family.NUMERICS
    kind = Kind.RISK
    severity = Severity.HIGH
    timed = False
    correctness = True
    on_traces = "the mode of the model: a trace does not show it"
    threshold = "a model in training mode in any request (documentation of torch.nn.Module.eval)"

    def check(self, profile: Profile) -> Finding:
        training = profile.run.requests_in_training_mode if profile.run is not None else None
        if training is None:
            return self.not_applicable("requests", "the run was not counted in requests")
        if not training:
            return self.passed("0 models answer in training mode")
        return self.diagnostic(
            "1 model answers requests in training mode",
            advice="Call `model.eval()` once after loading, before the first request, unless layers such as "
            "dropout are to act on purpose.",
        )
