"""The loss or a gradient is NaN or infinite."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile

FEWER_BITS = (
    "Compute in bfloat16 where it is float16 now, which rounds more coarsely: "
    "`torch.autocast(device_type, dtype=torch.bfloat16)`."
)
SMALLER_STEPS = (
    "Clip gradients before the update, which changes training: "
    "`torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)`."
)


class Nonfinite(Rule):
    """A number that is NaN or infinite spreads to all parameters with the next update.

    From then on the program computes at full speed and learns nothing. Usual reasons are a learning
    rate that is too high, float16 without loss scaling, a logarithm or a division of zero, or broken
    samples. Look at the first step and module named here; compute in bfloat16, which has the range of
    float32, or lower the learning rate; `torch.autograd.set_detect_anomaly(True)` names the operator, for a
    few steps only. A gradient scaler skips updates with infinite gradients on purpose, so gradients under
    one are not counted here.
    """

    family = Family.NUMERICS
    kind = Kind.RISK
    on_traces = "values of loss and gradients: a trace does not hold them"
    threshold = "any NaN or infinity in a loss or gradient (SageMaker Debugger, ExplodingTensor)"
    knobs = ("amp",)
    severity = Severity.HIGH
    timed = False
    correctness = True

    def check(self, profile: Profile) -> Finding:
        run = profile.run
        if run is None:
            return self.not_applicable("no steps were recorded")
        if run.nonfinite is None and run.finite_checks is None:
            return self.not_applicable("values of losses and gradients", "no step was looked at")
        if run.nonfinite is None:
            return self.passed(f"0 of {run.finite_checks} steps had a NaN or an infinity")
        if run.nonfinite == "gradient" and run.own_scaler:
            return self.not_applicable("gradients before scaling", "see `skipped_scaler_steps`")
        step = f", the first at step {run.nonfinite_step}" if run.nonfinite_step is not None else ""
        module = f", in `{run.nonfinite_module}`" if run.nonfinite_module else ""
        # Autocast computes in float16 on a GPU unless told otherwise, and in bfloat16 on a CPU.
        half = run.own_autocast and profile.device.startswith("cuda") and not run.scaler_on_bf16
        return self.diagnostic(
            f"1 {run.nonfinite} or more is NaN or infinite{step}{module}",
            advice=FEWER_BITS if half else SMALLER_STEPS,
            evidence={
                "what": run.nonfinite,
                "step": run.nonfinite_step,
                "module": run.nonfinite_module,
                "autocast": run.own_autocast,
            },
            knobs=self.knobs if half else (),
        )
