"""Attention is written out as a product, a softmax and another product."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import share_of_step
from advisor.profiles.derived.roofline import fused_attention_ms
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import Attention


class UnfusedAttention(Rule):
    """The program computes softmax(q k^T) v in separate operators, which store the whole matrix of weights.

    That matrix has one entry for each pair of positions, and every operator between the two products reads
    and writes all of it. A fused kernel keeps it in the cache of the device and never stores it, which also
    frees memory for the backward pass. Call `torch.nn.functional.scaled_dot_product_attention(q, k, v)`, or
    load a transformers model with `attn_implementation="sdpa"`. It returns no attention weights. What the
    fused form takes is timed at these shapes; of a recorded GPU it is modelled, as a quarter of the peak.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    threshold = (
        "matmul, softmax, matmul without a fused attention, and slower than it at these shapes (TraceLens)"
    )
    knobs = ("sdpa_backend",)
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window = profile.window
        if window is None or not window.ops:
            return self.not_applicable("operators", "need steps recorded by torch.profiler")
        share = share_of_step(profile, sum(each.ms for each in window.attentions))
        title = f"{percent(share)} of each step computes attention as product, softmax, product"
        if share < self.least:
            return self.passed(title)
        heaviest = max(window.attentions, key=lambda each: each.ms)
        evidence = {
            "attentions": [
                {"shape": list(each.shape), "per_step": each.count, "ms": each.ms, "fused_ms": each.fused_ms}
                for each in window.attentions
            ]
        }
        place = f" at {heaviest.location}" if heaviest.location else ""
        advice = (
            f"Call `torch.nn.functional.scaled_dot_product_attention(q, k, v)`{place}, "
            "which draws other dropout masks and returns no attention weights."
        )
        on_device = profile.device.startswith("cuda")
        known = [(each, *_fused(each, profile if on_device else None)) for each in window.attentions]
        fused = [(each.ms, ms) for each, ms, _ in known if ms is not None]
        if not fused:
            return self.diagnostic(
                title,
                advice=advice,
                severity=Severity.LOW,  # what the fused form takes at these shapes is not known
                location=heaviest.location,
                evidence=evidence,
                knobs=(),
            )
        saved = share_of_step(profile, sum(max(0.0, ms - fused_ms) for ms, fused_ms in fused))
        modelled = any(is_modelled for _, _, is_modelled in known)
        return self.opportunity(
            title,
            self.modelled(saved) if modelled else self.timeline(saved),
            advice=advice,
            location=heaviest.location,
            evidence=evidence,
            knobs=(),  # a backend can be chosen only once the fused form is called
        )


def _fused(attention: Attention, profile: Profile | None) -> tuple[float | None, bool]:
    """Milliseconds of the fused form, and whether a model says so."""
    if attention.fused_ms is not None or profile is None:
        return attention.fused_ms, False
    ms = fused_attention_ms(attention, profile.rates)
    return ms, ms is not None
