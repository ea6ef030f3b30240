"""The optimizer holds parameters that never receive a gradient."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import OptimizerFacts, Profile

THRESHOLD = 0.01  # of the bytes given to an optimizer: less is a stray bias; set by experiment
MIB = 2**20


class FrozenParametersOptimized(Rule):
    """Parameters without a gradient are listed in an optimizer, which passes over them at every update.

    Either they are frozen on purpose and need not be listed, or they were meant to learn and the loss does
    not reach them. torch's own optimizers skip what has no gradient, so no time is claimed; optimizers that
    keep state for all they are given, and sharded ones, pay memory for each.
    Hand over what learns: `torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)`. Where they
    should learn, look for a `detach()`, a `no_grad()` or a module that the forward does not call.
    """

    family = Family.OPTIMIZER
    kind = Kind.WASTE
    on_traces = "gradients of each parameter: a trace does not tell which had none"
    threshold = "at least 1 % of an optimizer's bytes never had a gradient (set by experiment)"
    severity = Severity.LOW
    timed = False

    def check(self, profile: Profile) -> Finding:
        if not profile.optimizers:
            return self.not_applicable("optimizer", "the program uses no torch optimizer")
        known = [optimizer for optimizer in profile.optimizers if _share(optimizer) is not None]
        if not known:
            return self.not_applicable("parameters without gradient", "needs watched updates")
        worst = max(known, key=lambda optimizer: _share(optimizer) or 0.0)
        share = _share(worst) or 0.0
        said = f"{percent(share)} of the bytes that {worst.name} was given never had a gradient"
        if share < THRESHOLD:
            return self.passed(said)
        return self.diagnostic(
            said,
            advice=f"Hand over what learns: `torch.optim.{worst.name}(p for p in model.parameters() if "
            "p.requires_grad)`; if all of them should learn, the loss does not reach them.",
            location=worst.location,
            evidence={
                "without_gradient_mib": round((worst.without_gradient_bytes or 0) / MIB, 2),
                "parameter_mib": round((worst.parameter_bytes or 0) / MIB, 2),
            },
        )


def _share(optimizer: OptimizerFacts) -> float | None:
    if optimizer.without_gradient_bytes is None or not optimizer.parameter_bytes:
        return None
    return min(1.0, optimizer.without_gradient_bytes / optimizer.parameter_bytes)
