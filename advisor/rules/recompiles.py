"""A compiled step is compiled again after the warm-up."""

import re

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.observed import CompileFacts
from advisor.profiles.facts.profile import Profile

NUMBERS = re.compile(r"^\d+/\d+: ")  # of the frame and of its compilation
ATTRIBUTE = re.compile(r"\.\w+$")
SIZE = "size mismatch"  # in the reason that dynamo gives when a shape changed


class Recompiles(Rule):
    """`torch.compile` makes code for what it has seen; when a guard on that fails, it compiles again.

    Every recompilation stops training for seconds. The usual reason is a size that changes: a shorter
    last batch, sentences of different length. The other is a Python number or flag that changes from
    step to step and was compiled in as a constant.
    Mark changing sizes with `torch._dynamo.mark_dynamic(batch, 0)`, compile with `dynamic=True`, or keep
    sizes constant by padding, bucketing or `drop_last=True` (which changes what is trained on). Hand over
    changing numbers as tensors. After 8 recompilations of one function torch stops compiling it.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "compilations: a trace does not tell"
    threshold = "any compilation after the first ten steps (PyTorch/XLA: frequent compilation)"
    knobs = ("dynamic",)
    explains = ("unstable_steps", "compile_unrecovered")

    def check(self, profile: Profile) -> Finding:
        compiled, run = profile.compile, profile.run
        if compiled is None or not compiled.frames:
            return self.not_applicable("compiled frames", "the program runs nothing under torch.compile")
        count = compiled.recompiles_after_warmup
        if not count:
            return self.passed("0 recompilations after the first ten steps")
        advice = guard_advice(compiled)
        knobs = self.knobs if sizes_change(compiled) else ()
        place = compiled.recompile_location
        evidence = {
            "recompilations": count,
            "recompile_s": round(compiled.recompile_seconds, 3),
            "reasons": [reason.partition("\n")[0] for reason in compiled.recompile_reasons[:3]],
        }
        told = (
            f"{seconds(compiled.recompile_seconds)} in {count} recompilation{'s' * (count > 1)} after warm-up"
        )
        # A single one, such as for a shorter last batch, is paid once in the whole run; several go on.
        over_s = _planned_s(profile) if count == 1 else (run.wall_s if run is not None else None)
        if not over_s:
            severity = Severity.LOW if count == 1 else None
            return self.diagnostic(
                told, advice=advice, severity=severity, location=place, evidence=evidence, knobs=knobs
            )
        share = compiled.recompile_seconds / max(over_s, compiled.recompile_seconds)
        of = "planned run" if count == 1 else "time since the first step"
        return self.opportunity(
            f"{percent(share)} of the {of} recompiles: {told}",
            self.timeline(share, of="run"),
            advice=advice,
            location=place,
            evidence={**evidence, "of_s": round(over_s, 3)},
            knobs=knobs,
        )


def seconds(value: float) -> str:
    """Seconds with two significant digits, or all before the point."""
    return f"{value:,.0f} s" if value >= 9.95 else f"{value:.2g} s"


def _planned_s(profile: Profile) -> float | None:
    phases, run = profile.phases, profile.run
    if phases is None or run is None or run.steps_total is None or profile.compile is None:
        return None
    return run.steps_total * phases.step_ms / 1000 + profile.compile.seconds


def sizes_change(compiled: CompileFacts) -> bool:
    """Whether what was compiled anew met another size; so where no reason is known."""
    reasons = compiled.recompile_reasons
    return not reasons or any(SIZE in reason for reason in reasons)


def guard_advice(compiled: CompileFacts) -> str:
    """What to do about the guard that failed, by dynamo's own reason."""
    if sizes_change(compiled):
        return (
            "Mark the size that changes as dynamic: `torch._dynamo.mark_dynamic(batch, 0)` before the step, "
            "or `torch.compile(model, dynamic=True)`; sums may then round differently."
        )
    guard = compiled.recompile_reasons[0].partition("\n")[0].partition("#")[0].strip()
    guard = NUMBERS.sub("", guard)
    where = f" at {compiled.recompile_location}" if compiled.recompile_location is not None else ""
    value = guard.partition(" == ")[0]
    if ATTRIBUTE.search(value):
        return (
            f"Keep `{value}`{where} in a buffer (a tensor of no dimensions), or out of what is compiled: "
            f"the guard `{guard}` fails whenever it changes."
        )
    return f"Hand over what changes{where} as a tensor, not as a Python value: the guard `{guard}` failed."
