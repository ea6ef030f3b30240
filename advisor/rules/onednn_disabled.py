"""The fast convolution and matrix library of the CPU is switched off."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

THRESHOLD = 0.2  # of compute in convolutions and matmuls; set by experiment
MATMULS = ("aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm", "aten::baddbmm", "aten::addmv")


class OnednnDisabled(Rule):
    """oneDNN computes convolutions, and matrix products in bf16, on the vector units of the CPU.

    With `torch.backends.mkldnn` switched off, torch falls back to plain loops and copies: convolution
    networks then ran at 0.37 to 0.58 of their speed (2-core CPU, torch 2.13).
    Remove the line that switches it off, or set it back with `torch.backends.mkldnn.set_flags(True)`.
    Sums are then made in another order, so numbers can differ in the last digits.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "flag mkldnn.enabled: a trace does not hold it"
    threshold = "oneDNN off with 20 % of compute in convolutions and matmuls (set by experiment)"
    knobs = ("mkldnn",)
    recorded = True

    def check(self, profile: Profile) -> Finding:
        run, window = profile.run, profile.window
        if profile.device != "cpu":
            return self.not_applicable("oneDNN", "the program computes on a GPU")
        if run is None or run.mkldnn_enabled is None:
            return self.not_applicable("flag mkldnn.enabled", "was not recorded")
        if run.mkldnn_enabled:
            return self.passed("oneDNN is on")
        if not profile.machine.mkldnn:
            return self.not_applicable("oneDNN", "this torch was built without it")
        if window is None or window.compute_ms <= 0:
            return self.not_applicable("operators", "needs a recorded window")
        convolutions = sum(op.self_ms for op in window.ops if "conv" in op.name and "convert" not in op.name)
        matmuls = window.ms_of(*MATMULS)
        share = min(1.0, (convolutions + matmuls) / window.compute_ms)
        if share < THRESHOLD:
            return self.passed(f"{percent(share)} of compute could use oneDNN, which is off")
        return self.diagnostic(
            f"{percent(share)} of compute could use oneDNN, which is off",
            advice="Remove the line that sets `torch.backends.mkldnn` off; sums are then made in another "
            "order.",
            evidence={
                "convolution_ms": round(convolutions, 4),
                "matmul_ms": round(matmuls, 4),
                "compute_ms": round(window.compute_ms, 4),
            },
        )
