"""Requests record a graph that nobody uses."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile


class GradientsInInference(Rule):
    """An answer needs no gradient, but autograd records one for every operator unless told not to.

    Recording costs time on each operator and keeps all activations of a request in memory for as long as its
    output lives. Put the call into `with torch.inference_mode():`, or `torch.no_grad()` where its output
    meets autograd again. A request that differentiates on purpose, for forces or attacks, is right as it is.
    """

    family = Family.HOST
    kind = Kind.WASTE
    knobs = ("inference_mode",)
    on_traces = "requests: a trace does not tell them from training"
    threshold = "a model called with gradients enabled in any request (PyTorch tuning guide)"

    def check(self, profile: Profile) -> Finding:
        mode = profile.run.requests_mode if profile.run is not None else None
        if mode is None:
            return self.not_applicable("requests", "the run was not counted in requests")
        if mode != "grad":
            return self.passed(f"0 requests are answered with gradients: under torch.{mode}()")
        return self.diagnostic(
            "1 model answers requests with gradients enabled",
            advice="Answer under `with torch.inference_mode():`; what it computes can then not be used in "
            "autograd, and activations are freed at once.",
        )
