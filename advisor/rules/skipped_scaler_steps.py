"""The gradient scaler throws away updates."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import TIMELINE_ERROR, Family, Rule, percent
from advisor.profiles.facts.profile import Profile

THRESHOLD = 0.05  # of the updates; set by experiment
SETTLING = 100  # first updates, in which a scale that is too large is brought down
FEWEST = 20  # updates after those, from which a share means something
SKIPS = 2  # one is what the scaler's own attempt to raise the scale costs


class SkippedScalerSteps(Rule):
    """`GradScaler` skips an update whose gradients are infinite, and halves the scale.

    A few skips at the start, and one now and then when it tries a larger scale, are how it works. Many
    mean that float16 cannot hold these gradients: forward and backward were computed for nothing, and the
    learning rate's schedule moves on. Compute in bfloat16, which needs no scaler and rounds more coarsely,
    or begin lower and grow later:
    `torch.amp.GradScaler(init_scale=1024.0, growth_interval=10000)`.
    """

    family = Family.NUMERICS
    kind = Kind.WASTE
    on_traces = "gradient scaler: a trace does not tell of it"
    threshold = (
        f"more than {THRESHOLD:.0%} of the updates skipped after the first {SETTLING} (set by experiment)"
    )
    knobs = ("amp",)

    def check(self, profile: Profile) -> Finding:
        run = profile.run
        if run is None:
            return self.not_applicable("no steps were recorded")
        if not run.own_scaler:
            return self.not_applicable("gradient scaler", "the program uses none")
        if run.steps_seen < SETTLING + FEWEST or run.scaler_updates < FEWEST:
            return self.not_applicable(
                f"{run.scaler_updates} updates of the scaler", f"needs {FEWEST} after the first {SETTLING}"
            )
        share = run.scaler_skipped / run.scaler_updates
        title = f"{percent(share)} of the updates are skipped by the gradient scaler"
        if share <= THRESHOLD or run.scaler_skipped < SKIPS:
            return self.passed(title)
        return self.opportunity(
            title,
            self.timeline(share, max(TIMELINE_ERROR, run.scaler_skipped**-0.5), of="run"),
            advice="Compute in bfloat16 without a scaler: "
            "`torch.autocast(device_type, dtype=torch.bfloat16)`, which rounds more coarsely.",
            evidence={"skipped": run.scaler_skipped, "updates": run.scaler_updates},
        )
