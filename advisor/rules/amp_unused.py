"""The device computes faster in 16 bits, and the program never does."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import (
    BF16_CAPABILITY,
    LOW,
    NO_RATE,
    UNTYPED,
    capability,
    castable,
    share_of_compute,
    share_of_step,
    speedup,
    spent_ms,
    untyped,
)
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import OpCost

TENSOR_CORES = (7, 0)  # the first NVIDIA generation that has them
WORTHWHILE = 1.1  # times the rate in use; set by experiment, below it casts and noise eat the gain


class AmpUnused(Rule):
    """Products, convolutions, recurrent layers and attention compute in float32 only.

    Tensor cores (NVIDIA capability 7.0 and up) and the bfloat16 units of recent CPUs do these several times
    faster in 16 bits, and activations take half the memory. Run the forward under
    `torch.autocast(device.type, dtype=torch.bfloat16)`; autocast keeps float32 where 16 bits would lose too
    much. The ceiling leaves out the casts that autocast adds, so very small networks can get slower.
    """

    family = Family.COMPUTE
    kind = Kind.HEADROOM
    threshold = (
        "time in operators that autocast would cast, none of it in 16 bits (TensorBoard plug-in, DLProf), "
        "and a 16-bit rate at least 1.1 times as high (set by experiment)"
    )
    knobs = ("amp",)
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window, run = profile.window, profile.run
        if window is None or not window.ops:
            return self.not_applicable("operators", "need steps recorded by torch.profiler")
        if run is not None and run.own_autocast:
            return self.not_applicable("computing in float32", "the program uses autocast itself")
        low_ms = spent_ms(castable(window, *LOW))
        eligible = castable(window, "float32")
        ms = spent_ms(eligible)
        share = share_of_compute(window, ms)
        if low_ms > 0:
            return self.passed(f"{percent(low_ms / (low_ms + ms))} of what 16 bits suit is in 16 bits")
        title = f"{percent(share)} of compute is in float32 where 16 bits would do"
        if ms <= 0 and untyped(window):
            return self.not_applicable("types of operators", UNTYPED)
        if ms <= 0:
            return self.passed(title)
        on_gpu = profile.device.startswith("cuda")
        units = capability(profile)
        if on_gpu and units is None:
            return self.not_applicable("capability of the GPU", "is read from its driver")
        if units is not None and units < TENSOR_CORES:
            return self.not_applicable(
                "tensor cores", f"need capability 7.0, this GPU has {units[0]}.{units[1]}"
            )
        low = "float16" if units is not None and units < BF16_CAPABILITY else "bfloat16"
        reduced = _rounded(eligible) if run is None else run.matmul_precision != "highest"
        gain = speedup(profile, low, over="float32_medium" if reduced else "float32")
        if gain is None:
            return self.not_applicable(f"rate of {low} products", NO_RATE)
        if gain < WORTHWHILE:
            return self.passed(f"{gain:.2f} times the present rate in {low}: no faster units here")
        heaviest = max(eligible, key=lambda op: op.self_ms)
        return self.opportunity(
            title,
            self.modelled(share_of_step(profile, ms * (1 - 1 / gain))),
            advice=_advice("cuda" if on_gpu else "cpu", low),
            location=next((root.location for root in profile.roots if root.location), heaviest.location),
            evidence={"eligible_ms": round(ms, 4), "rate_ratio": round(gain, 2), "heaviest": heaviest.name},
        )


def _rounded(ops: tuple[OpCost, ...]) -> bool:
    """Whether kernels that round the factors take most of their time."""
    return spent_ms(op for op in ops if op.arithmetic == "float32_medium") > spent_ms(ops) / 2


def _advice(device: str, low: str) -> str:
    scaled = " and scale the loss with `torch.amp.GradScaler`" if low == "float16" else ""
    return (
        f'Compute output and loss under `with torch.autocast("{device}", dtype=torch.{low}):`{scaled}, '
        "which rounds inside the forward and so changes the losses slightly."
    )
