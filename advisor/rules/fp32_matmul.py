"""Float32 matrices are multiplied at full precision on a device that has faster units for less."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import (
    BF16_CAPABILITY,
    NO_RATE,
    UNTYPED,
    capability,
    convolutions,
    matmuls,
    share_of_compute,
    share_of_step,
    speedup,
    spent_ms,
    untyped,
)
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import OpCost

THRESHOLD = 0.20  # of compute; set by experiment
WORTHWHILE = 1.1  # times the float32 rate; set by experiment, below it casts and noise eat the gain


class Fp32Matmul(Rule):
    """Matrix products of float32 numbers run at precision `highest`, which leaves the fast units unused.

    NVIDIA GPUs from capability 8.0 multiply float32 matrices several times faster when they may round the
    factors to TF32, and CPUs with bfloat16 units when they may round to bfloat16. Everything outside the
    product stays float32, and it costs no memory. Set `torch.set_float32_matmul_precision("high")` on a GPU
    or `"medium"` on a CPU before the first step. Convolutions on a GPU use TF32 by default; they count only
    where the program switched that off. In a trace the names of kernels tell at which precision they ran.
    """

    family = Family.COMPUTE
    kind = Kind.HEADROOM
    threshold = (
        "float32 products at least 20 % of compute at precision highest, and a rate at lower precision "
        "at least 1.1 times as high (set by experiment)"
    )
    knobs = ("matmul_precision", "conv_fp32_precision", "amp")
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window, run = profile.window, profile.run
        if window is None or not window.ops:
            return self.not_applicable("operators", "need steps recorded by torch.profiler")
        on_gpu = profile.device.startswith("cuda")
        if untyped(window):
            return self.not_applicable("types of operators", UNTYPED)
        products, exact = matmuls(window, "float32"), convolutions(window, "float32")
        if run is not None:
            products = products if run.matmul_precision == "highest" else ()
            exact = exact if on_gpu and run.conv_fp32_precision == "ieee" else ()
        elif not any(op.arithmetic for op in (*products, *exact)) and (products or exact):
            return self.not_applicable(
                "matmul precision", "needs the program itself, or kernels whose names tell it"
            )
        else:
            products, exact = _at_full_precision(products), _at_full_precision(exact)
        if not products and not exact and run is not None and run.matmul_precision != "highest":
            return self.passed(f"0.0 % of compute is held at full precision: it is {run.matmul_precision}")
        ms = spent_ms((*products, *exact))
        share = share_of_compute(window, ms)
        title = f"{percent(share)} of compute multiplies float32 numbers at full precision"
        if share < THRESHOLD:
            return self.passed(title)
        units = capability(profile)
        if on_gpu and units is None:
            return self.not_applicable("capability of the GPU", "is read from its driver")
        if units is not None and units < BF16_CAPABILITY:
            return self.not_applicable(
                "TF32 units", f"need capability 8.0, this GPU has {units[0]}.{units[1]}"
            )
        gain = speedup(profile, "float32_medium")
        if gain is None:
            return self.not_applicable("rate of float32 products at lower precision", NO_RATE)
        if gain < WORTHWHILE:
            return self.passed(f"{gain:.2f} times the float32 rate at lower precision: no faster units here")
        heaviest = max((*products, *exact), key=lambda op: op.self_ms)
        tried = [
            "matmul_precision" if products else "",
            "conv_fp32_precision" if exact else "",
            "" if run is not None and run.own_autocast else "amp",
        ]
        return self.opportunity(
            title,
            self.modelled(share_of_step(profile, ms * (1 - 1 / gain))),
            advice=_advice(on_gpu, bool(products)),
            location=heaviest.location,
            evidence={"float32_ms": round(ms, 4), "rate_ratio": round(gain, 2), "heaviest": heaviest.name},
            knobs=tuple(knob for knob in tried if knob),
        )


def _at_full_precision(ops: tuple[OpCost, ...]) -> tuple[OpCost, ...]:
    """Those whose kernels say by their names that they do not round the factors."""
    return tuple(op for op in ops if op.arithmetic == "float32")


def _advice(on_gpu: bool, products: bool) -> str:
    if not on_gpu:
        return (
            'Set `torch.set_float32_matmul_precision("medium")` before the first step, '
            "which rounds the factors of float32 products to bfloat16 (8 bits of mantissa)."
        )
    if products:
        return (
            'Set `torch.set_float32_matmul_precision("high")` before the first step, '
            "which rounds the factors of float32 products to TF32 (10 bits of mantissa)."
        )
    return (
        'Set `torch.backends.cudnn.conv.fp32_precision = "tf32"`, '
        "which rounds the factors in float32 convolutions to TF32 (10 bits of mantissa)."
    )
