"""The CPU computes with numbers that are too small to be normal."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.observed import LEAST_DENORMAL, Denormals
from advisor.profiles.facts.profile import Profile

OF = {"parameter": "", "gradient": "the gradient of ", "state": "the optimizer's state of "}
SLOWER = 1.3  # times, of a product with them; set by experiment
LOST = 0.1  # of a weight, from where it is told although this processor is not slow with them; chosen
FLUSH = (
    "Treat them as zero: `torch.set_flush_denormal(True)` right after importing torch; results change below"
)


class DenormalNumbers(Rule):
    """Numbers below 1.2e-38 (float32) are denormal, and many processors compute with them far more slowly.

    They come from values that decay and never reach zero: weights of units that get no gradient under weight
    decay, momenta of such parameters, long recurrences. One of them in an operation is enough to slow it
    down. Treat them as zero with `torch.set_flush_denormal(True)` right after importing torch, before it
    starts its threads. What they contribute to a sum is below its rounding. The ceiling is the part of
    forward and backward that works on such tensors, times what a product with the worst of them took more,
    and that of the update, times what its operations took more, as measured. Processors differ: where
    this one is not slow with them, a weight that is denormal by a tenth and more is told all the same, as
    `low`, since such weights add nothing to any sum and hardly learn, and the next processor may be slow.
    """

    family = Family.NUMERICS
    kind = Kind.WASTE
    on_traces = "values of parameters: a trace does not hold them"
    threshold = (
        f"{LEAST_DENORMAL:.0%} of a tensor denormal, and a product or an update with it {SLOWER} times "
        f"slower (set by experiment), or {LOST:.0%} of a parameter"
    )
    correctness = True
    knobs = ("flush_denormal",)
    explains = ("single_tensor_optimizer", "optimizer_bound")

    def check(self, profile: Profile) -> Finding:
        phases, found, run = profile.phases, profile.denormals, profile.run
        if profile.device != "cpu":
            return self.not_applicable("numbers on the CPU", f"the model runs on {profile.device}")
        if phases is None or run is None:
            return self.not_applicable("no steps were recorded")
        if found is None or not found.telling:
            return self.passed("0 denormal numbers were met among parameters, gradients and optimizer state")
        said = f"{percent(found.share)} of {OF[found.kind]}`{found.name}` is denormal"
        what, slower = "a product", found.slowdown
        if found.update_slowdown > slower:
            what, slower = "an update", found.update_slowdown
        if slower < SLOWER and found.kind == "parameter" and found.share >= LOST:
            return self.diagnostic(
                f"{said}: those weights add nothing, and cost nothing here: {what} with it is {slower:.1f} "
                "times as slow",
                kind=Kind.RISK,
                severity=Severity.LOW,
                advice="See why these units get no gradient. For processors that are slow with such numbers: "
                f"{FLUSH[0].lower()}{FLUSH[1:]} their rounding.",
                evidence=_evidence(found),
            )
        if slower < SLOWER:
            return self.passed(f"{said}; {what} with it is {slower:.1f} times as slow")
        share = phases.share("optimizer") * (1 - 1 / found.update_slowdown)
        if found.kind != "state":
            share += phases.share("forward", "backward") * (1 - 1 / found.slowdown)
        return self.opportunity(
            f"{said}: {what} with it is {slower:.1f} times as slow",
            self.modelled(share * found.tensors_share),
            advice=f"{FLUSH} their rounding.",
            evidence=_evidence(found),
        )


def _evidence(found: Denormals) -> dict[str, float]:
    return {
        "denormal_share": round(found.share, 4),
        "slowdown": round(found.slowdown, 2),
        "update_slowdown": round(found.update_slowdown, 2),
        "share_of_parameters": round(found.tensors_share, 4),
    }
