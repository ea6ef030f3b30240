"""Pruned weights are kept as zeros, which are multiplied like any other number."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

ALONE = 0.5  # relative error of the time of masks, which were multiplied alone
THRESHOLD = 0.30  # of all weights; training alone leaves hardly any exact zeros (set by experiment)


class MaskedPruning(Rule):
    """`torch.nn.utils.prune` multiplies each weight with a mask in each call, and zeros save no arithmetic.

    Dense kernels multiply by zero as slowly as by anything else (pytorch 36214). The mask itself costs a pass
    over the weights per call: make it permanent with `prune.remove(module, "weight")`, which leaves the
    outputs as they are. For speed remove whole channels or heads, so that tensors become smaller, and train
    what is left once more; or leave the model unpruned, which is as fast and more accurate.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    severity = Severity.LOW
    on_traces = "values of weights: a trace does not hold them"
    threshold = f"weights with masks, or {percent(THRESHOLD)} of all weights zero (set by experiment)"

    def check(self, profile: Profile) -> Finding:
        served, phases = profile.served, profile.phases
        if served is None or served.zeros is None:
            return self.not_applicable("values of weights", "need requests that are looked at closely")
        zeros = f"{percent(served.zeros)} of the weights are zero"
        evidence = {"zeros": round(served.zeros, 3), "masks": served.masks}
        taken = 0.0
        if served.masks and phases is not None and phases.step_ms > 0:
            evidence["mask_ms"] = round(served.mask_ms, 4)
            taken = min(1.0, served.mask_ms / phases.step_ms)
        if taken * ALONE >= self.least:
            return self.opportunity(
                f"{served.masks} weights are multiplied with masks in each call; {zeros}",
                self.timeline(taken, ALONE),
                advice='Make masks permanent after loading: `prune.remove(module, "weight")` for each pruned '
                "layer. Zeros alone make nothing faster: that takes removing whole channels.",
                evidence=evidence,
            )
        if served.zeros < THRESHOLD:
            return self.passed(zeros)
        return self.diagnostic(
            f"{zeros} and are multiplied like any other number",
            advice="Do not expect speed from zeros in dense weights: remove whole channels and train what is "
            "left, or serve the unpruned model.",
            evidence=evidence,
        )
