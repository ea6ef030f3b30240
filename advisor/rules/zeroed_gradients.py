"""Gradients are cleared by writing zeros into them."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

TRAFFIC = 4.0  # passes over memory: writing zeros, then reading both and writing the sum in backward


class ZeroedGradients(Rule):
    """`zero_grad(set_to_none=False)` writes zeros into every gradient before the next backward.

    That is one pass over memory as large as the parameters, and the backward then adds to the zeros where
    it could have stored its result. A recommender with large embedding tables ran at 0.71 of its speed
    (2-core CPU); on other models there was no clear difference.
    Call `optimizer.zero_grad()`, which sets gradients to `None` by default. Code that reads a gradient
    before the first backward must then allow for `None`.
    """

    family = Family.OPTIMIZER
    kind = Kind.WASTE
    threshold = (
        "gradients cleared by zeros (PyTorch pattern matcher, tuning guide) in at least 2 % of the step"
    )
    knobs = ("set_to_none",)
    explains = ("optimizer_bound",)

    def check(self, profile: Profile) -> Finding:
        phases, window = profile.phases, profile.window
        if phases is None or phases.step_ms <= 0:
            return self.not_applicable("no steps were recorded")
        if not profile.optimizers:
            return self.not_applicable("optimizer", "no update of one was seen")
        zeroing = [optimizer for optimizer in profile.optimizers if optimizer.zeroes_gradients]
        if not zeroing:
            if all(optimizer.zeroes_gradients is None for optimizer in profile.optimizers):
                return self.not_applicable("how gradients are cleared", "no clearing was seen")
            return self.passed("0 optimizers clear gradients by writing zeros")
        spent = [optimizer.zero_grad_ms for optimizer in zeroing if optimizer.zero_grad_ms is not None]
        if profile.device == "cpu" and spent:
            ms = sum(spent)
        elif window is not None:  # on a device the host only starts the writing
            ms = window.zero_ms
            if window.residual > ms / phases.step_ms / 2:
                return self.not_applicable("time of clearing gradients", "the recorded window is too unclear")
        else:
            return self.not_applicable("time of clearing gradients", "needs a recorded window")
        share = ms / phases.step_ms
        return self.opportunity(
            f"{percent(share)} of each step writes zeros into gradients",
            self.modelled(min(1.0, TRAFFIC * share)),
            advice="Clear with `optimizer.zero_grad(set_to_none=True)`, the default; gradients are then "
            "`None` until the next backward.",
            location=zeroing[0].location,
            evidence={"zero_ms": round(ms, 4), "step_ms": round(phases.step_ms, 4)},
        )
