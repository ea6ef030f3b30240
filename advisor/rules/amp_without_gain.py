"""Autocast converts more than its 16-bit products give back."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import (
    LOW,
    castable,
    share_of_compute,
    share_of_step,
    speedup,
    spent_ms,
)
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.recorded import OpCost

THRESHOLD = 0.10  # of compute; set by experiment
WORTHWHILE = 1.1  # times the float32 speed; below it 16 bits give nothing that casts could cost


class AmpWithoutGain(Rule):
    """Autocast is on, and converting between float32 and 16 bits costs more than the 16-bit products save.

    Each conversion reads and writes a whole tensor. That pays when large products follow; with small
    batches, small layers, or where float32 products run at the same rate anyway (TF32), it does not. Leave
    autocast off, or give each step a larger batch. Make sure as well that `cache_enabled=False` is not set:
    without the cache each weight is converted anew at every use.

    What products save is modelled by their arithmetic and bytes at the measured rates (roofline, Williams
    et al. 2009): only that part of their time is shorter in 16 bits. Small products spend most of it
    elsewhere and save next to nothing, however fast the machine multiplies.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "autocast: a trace does not tell whether it is on"
    threshold = (
        "conversions at least 10 % of compute and more than the 16-bit products save (set by experiment); "
        "any share of them where those are less than 1.1 times as fast as in float32"
    )
    knobs = ("amp", "batch_size")
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window, run = profile.window, profile.run
        if window is None or not window.ops:
            return self.not_applicable("operators", "need steps recorded by torch.profiler")
        if run is None or not run.own_autocast:
            return self.not_applicable("autocast", "the program does not use it")
        casts = share_of_compute(window, window.cast_ms)
        products = castable(window, *LOW)
        low_ms = spent_ms(products)
        low = max(LOW, key=lambda dtype: spent_ms(op for op in products if op.dtype == dtype))
        full = "float32" if run.matmul_precision == "highest" else "float32_medium"
        rate = speedup(profile, low, full)
        saved_ms = sum(_saved_ms(op, rate, profile.rates, low, full) for op in products) if rate else 0.0
        gain = rate if rate is None or not low_ms else 1 + saved_ms / low_ms
        lost_ms = window.cast_ms - saved_ms
        title = f"{percent(casts)} of compute converts between float32 and 16 bits"
        if rate is not None and rate < 1:
            title = f"{rate:.2g} times the float32 rate in {low}, and {title}"
        elif rate is not None and gain is not None and gain < WORTHWHILE <= rate:
            title = f"{gain:.2f} times the float32 speed in {low}, and {title}"
        if lost_ms <= 0 or (casts < THRESHOLD and (gain is None or gain >= WORTHWHILE)):
            return self.passed(title)
        return self.opportunity(
            title,
            self.modelled(share_of_step(profile, lost_ms)),
            advice="Call the model without `torch.autocast`, whose activations then take more memory.",
            location=next((root.location for root in profile.roots if root.location), None),
            evidence={
                "cast_ms": round(window.cast_ms, 4),
                "low_precision_ms": round(low_ms, 4),
                "saved_ms": round(saved_ms, 4),
                "rate_ratio": None if rate is None else round(rate, 2),
            },
        )


def _saved_ms(op: OpCost, rate: float, rates: Rates | None, low: str, full: str) -> float:
    """What an operator would take longer in float32; negative where 16 bits are slower.

    At most all of its time grows with the ratio of the rates, which holds for large ones.
    """
    most = op.self_ms * (rate - 1)
    fast, slow = (rates.flops(low), rates.flops(full)) if rates is not None else (None, None)
    if rate <= 1 or rates is None or not op.flops or not fast or not slow:
        return most
    moved_s = (op.bytes or 0.0) / rates.memory_sequential if rates.memory_sequential else 0.0
    longer_s = max(op.flops / slow, 2 * moved_s) - max(op.flops / fast, moved_s)
    return min(most, 1000 * op.calls * longer_s)
