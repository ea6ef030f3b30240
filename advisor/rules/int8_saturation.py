"""Kernels of 8 bits give other numbers than their weights say."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

LEAST = 0.03  # relative: right kernels came to 0.012 at most on six paths, saturating ones to 0.09 at least


class Int8Saturation(Rule):
    """Without units for 8 bits a processor adds products in pairs into 16 bits, and large sums are cut off.

    Answers are then off by 10 to 25 %, and nothing says so (pytorch 103646, onnxruntime 5849); the same
    model is right on a processor with VNNI. Each layer was called with an input of a request, and the same
    weights and activations were multiplied in float32. Leave one bit free: `reduce_range=True` in observers
    or in ONNX Runtime's `quantize_static`, or the qconfig of the engine that computes (`x86`, not `qnnpack`
    or `onednn`). Measure what 7 bits cost in accuracy.
    """

    family = Family.NUMERICS
    kind = Kind.RISK
    severity = Severity.HIGH
    timed = False
    correctness = True
    on_traces = "outputs of layers: a trace does not hold them"
    threshold = f"a layer is {percent(LEAST)} from its dequantised reference (measured: right ones 1.2 %)"

    def check(self, profile: Profile) -> Finding:
        int8 = profile.served.int8 if profile.served is not None else None
        if int8 is None:
            return self.not_applicable("layers of 8 bits", "none was seen in requests looked at closely")
        said = f"{percent(int8.error)} is the error of the worst int8 kernel against its own weights"
        if int8.error < LEAST:
            return self.passed(said)
        return self.diagnostic(
            f"{said}: sums of 16 bits saturate" if int8.vnni is False else said,
            advice="Quantise with one bit less: `reduce_range=True` in the observers, or the qconfig of the "
            'engine in use (`get_default_qconfig("x86")`); then measure accuracy anew.',
            evidence={"error": round(int8.error, 4), "worst_layer": int8.worst, "int8_layers": int8.layers},
        )
