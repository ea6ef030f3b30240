"""Autocast converts more than its 16-bit products give back."""

from advisor.finding import Finding, Kind
from advisor.profiles.eligible import LOW, castable, share_of_compute, share_of_step, speedup, spent_ms
from advisor.profiles.profile import Profile
from advisor.rule import Family, Rule, percent

THRESHOLD = 0.10  # of compute; set by experiment
WORTHWHILE = 1.1  # times the float32 rate; below it 16 bits give nothing that casts could cost


class AmpWithoutGain(Rule):
    """Autocast is on, and converting between float32 and 16 bits costs more than the 16-bit products save.

    Each conversion reads and writes a whole tensor. That pays when large products follow; with small
    batches, small layers, or where float32 products run at the same rate anyway (TF32), it does not. Leave
    autocast off, or give each step a larger batch. Make sure as well that `cache_enabled=False` is not set:
    without the cache each weight is converted anew at every use.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    threshold = (
        "conversions at least 10 % of compute and more than the 16-bit products save (set by experiment)"
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
        gain = speedup(profile, low, "float32" if run.matmul_precision == "highest" else "float32_medium")
        saved_ms = low_ms * (gain - 1) if gain is not None else 0.0  # negative where 16 bits are slower
        lost_ms = window.cast_ms - saved_ms
        title = f"{percent(casts)} of compute converts between float32 and 16 bits"
        if gain is not None and gain < 1:
            title = f"{gain:.2g} times the float32 rate in {low}, and {title}"
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
                "rate_ratio": None if gain is None else round(gain, 2),
            },
        )
