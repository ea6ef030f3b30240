"""Part of the step computes in float64."""

from dataclasses import replace

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import (
    UNTYPED,
    computing,
    share_of_compute,
    share_of_step,
    speedup,
    spent_ms,
    untyped,
)
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import OpCost

BYTES_RATIO = 2.0  # a float64 has twice the bytes: the least that it costs more


class DoublePrecision(Rule):
    """Some operators work on float64 tensors, which numpy arrays and Python lists of numpy values become.

    A float64 has twice the bytes of a float32, and most GPUs compute float64 at 1/32 or 1/64 of the float32
    rate; one such tensor turns everything it meets into float64. Make the tensor with `dtype=torch.float32`
    where it is created, for example `torch.from_numpy(array).float()`. Where the parameters themselves are
    float64, the program asked for it, and the finding only says what it costs.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    threshold = "float64 operators cost at least 2 % of the step more than float32 ones (set by experiment)"
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window = profile.window
        if window is None or not window.ops:
            return self.not_applicable("operators", "need steps recorded by torch.profiler")
        if untyped(window):
            return self.not_applicable("types of operators", UNTYPED)
        asked_for = any("float64" in dtype for root in profile.roots for dtype in root.dtypes)
        ops = computing(window)
        doubles = [op for op in ops if _has(op, "float64")]
        untold = [op for op in ops if _has(op, None) and not _has(op, "float64")]
        # What updates lists of parameters works on the type of those.
        untold_ms = spent_ms(op for op in untold if asked_for or op.phase != "optimizer")
        ms = spent_ms(doubles)
        share = share_of_compute(window, ms)
        title = f"{percent(share)} of compute works on float64"
        if not doubles:
            return self.passed(title)
        slower = max(BYTES_RATIO, speedup(profile, "float32", over="float64") or 0.0)
        heaviest = max(doubles, key=lambda op: op.self_ms)
        place = next((op.location for op in sorted(doubles, key=lambda op: -op.self_ms) if op.location), None)
        # Functions such as exp and sin can cost several times as much in float64, and a cast from it goes:
        # at most all of it, with whatever may work on float64 without the trace telling so.
        ceiling = self.modelled(share_of_step(profile, ms * max(0.0, 1 - 1 / slower)))
        most = share_of_step(profile, ms + untold_ms)
        return self.opportunity(
            title,
            replace(ceiling, high=max(ceiling.high, most)),
            advice=_advice(str(place) if place else "", asked_for),
            location=place,
            evidence={
                "float64_ms": round(ms, 4),
                "untold_ms": round(untold_ms, 4),
                "heaviest": heaviest.name,
                "float32_times_as_fast": round(slower, 2),
                "parameters_are_float64": asked_for,
            },
            kind=Kind.HEADROOM if asked_for else None,
        )


def _has(op: OpCost, dtype: str | None) -> bool:
    """Whether a tensor among the operator's inputs has this type, or one that was not told (``None``).

    Tensors without dimensions do not count: they are Python numbers, which torch's own optimizers pass as
    float64, and turn nothing that they meet into it.
    """
    if not op.shapes:
        return dtype is not None and op.dtype == dtype
    kinds = op.dtypes or (op.dtype,) * len(op.shapes)
    return any(shape and kind == dtype for shape, kind in zip(op.shapes, kinds, strict=False))


def _advice(place: str, asked_for: bool) -> str:
    if asked_for:
        return "Call `model.float()` and give it float32 inputs, which keeps 7 digits instead of 16."
    where = f"that reach {place} " if place else ""
    return (
        f"Create the tensors {where}with `dtype=torch.float32`, "
        "or convert them with `.float()`, which keeps 7 digits instead of 16."
    )
