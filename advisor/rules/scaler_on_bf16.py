"""A gradient scaler is used with bfloat16, which needs none."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile


class ScalerOnBf16(Rule):
    """Loss scaling keeps small float16 gradients above zero; bfloat16 has the range of float32.

    With bfloat16 the scaler still multiplies the loss, divides every gradient, looks for infinities and, on
    a GPU, makes the host wait for the answer before each update. Remove it:
    `loss.backward(); optimizer.step()`. Clipping then needs no `scaler.unscale_(optimizer)` before it.
    """

    family = Family.NUMERICS
    kind = Kind.WASTE
    on_traces = "gradient scaler: a trace does not tell of it"
    threshold = "a gradient scaler with bfloat16 that takes at least 2 % of the step (set by experiment)"
    knobs = ("amp",)
    explains = ("optimizer_bound",)

    def check(self, profile: Profile) -> Finding:
        run, phases = profile.run, profile.phases
        if run is None:
            return self.not_applicable("no steps were recorded")
        if not run.own_scaler:
            return self.not_applicable("gradient scaler", "the program uses none")
        if run.scaler_on_bf16 is None:
            return self.not_applicable("type that the scaler is used with", "no autocast was seen")
        if not run.scaler_on_bf16:
            return self.passed("0 scaled updates computed in bfloat16")
        advice = "Remove the scaler: `loss.backward(); optimizer.step()`; bfloat16 gradients need no scale."
        if run.scaler_ms is None or phases is None or phases.step_ms <= 0:
            return self.diagnostic(
                "1 gradient scaler is used with bfloat16", advice=advice, severity=Severity.LOW
            )
        share = min(1.0, run.scaler_ms / phases.step_ms)
        return self.opportunity(
            f"{percent(share)} of each step goes to a gradient scaler that bfloat16 does not need",
            self.timeline(share),
            advice=advice,
            evidence={"scaler_ms": round(run.scaler_ms, 4), "step_ms": round(phases.step_ms, 4)},
        )
