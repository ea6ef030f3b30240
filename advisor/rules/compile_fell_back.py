"""torch.compile gave up and runs the program uncompiled."""

from typing import Any

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.observed import CompileFacts
from advisor.profiles.facts.profile import Profile
from advisor.rules.recompiles import guard_advice, sizes_change


class CompileFellBack(Rule):
    """`torch.compile` falls back without an error: the program runs on, at eager speed.

    It happens when a function reaches the recompile limit (8 in torch 2.13), when no graph could be made
    of it at all (recurrent layers are an example), when a backend fails under `suppress_errors`, or when
    CUDA graphs are skipped because of changing inputs or work on the CPU. The time of compiling is spent
    and the gain is lost.
    Read the reason given here. Keep shapes constant or mark them dynamic, compile another part of the
    model, or leave compilation out. A Python number that changes from call to call, such as a counter in an
    attribute, is compiled in as a constant: keep it in a buffer.
    `TORCH_LOGS=recompiles,graph_breaks,cudagraphs` shows every case.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "what the compiler left out: a trace does not tell"
    threshold = (
        "recompile limit reached, no graph at all, a failure, or CUDA graphs skipped (PyTorch's limits)"
    )
    knobs = ("dynamic", "compile_region", "execution")
    severity = Severity.HIGH
    explains = ("compile_unrecovered",)

    def check(self, profile: Profile) -> Finding:
        compiled = profile.compile
        if compiled is None or not compiled.frames:
            return self.not_applicable("compiled frames", "the program runs nothing under torch.compile")
        evidence: dict[str, Any] = {
            "frames": compiled.frames,
            "compiled": compiled.compiled,
            "graphs": compiled.graphs,
            "compile_s": round(compiled.seconds, 3),
        }
        if compiled.eager_step_ms is not None and profile.phases is not None:
            evidence |= {"eager_step_ms": compiled.eager_step_ms, "step_ms": profile.phases.step_ms}
        lost = _lost(compiled)
        if lost is not None:
            title, advice, knobs = lost
            place = compiled.recompile_location if compiled.limit_reached else None
            return self.diagnostic(title, advice=advice, location=place, evidence=evidence, knobs=knobs)
        if compiled.cudagraphs_skipped:
            reason = compiled.cudagraphs_skipped.partition("\n")[0]
            return self.diagnostic(
                f"0 CUDA graphs were used where they were asked for: {reason}",
                advice="Keep inputs at the same addresses and shapes and all work on the GPU, or drop "
                '`mode="reduce-overhead"`.',
                severity=Severity.MEDIUM,
                evidence=evidence,
                knobs=("execution",),
            )
        return self.passed(f"{compiled.compiled} of {compiled.frames} frames compiled", **evidence)


def _lost(compiled: CompileFacts) -> tuple[str, str, tuple[str, ...]] | None:
    """What says that graphs are missing, worst first: title, advice, knobs."""
    if not compiled.compiled:
        return (
            f"0 graphs were made of {compiled.frames} frames: the step runs uncompiled",
            "Compile another part: `model.layer = torch.compile(model.layer)`, or remove `torch.compile`.",
            ("compile_region", "execution"),
        )
    if compiled.failures:
        first = compiled.failures[0].partition("\n")[0]
        lost = compiled.frames - compiled.compiled
        return (
            f"{max(lost, len(compiled.failures))} of {compiled.frames} frames failed to compile: {first}",
            "Leave the failing function out with `torch.compiler.disable`, or compile another part.",
            ("compile_region", "execution"),
        )
    if compiled.limit_reached:
        return (
            f"{compiled.frames} compilations reached the recompile limit: new cases run uncompiled",
            guard_advice(compiled),
            ("dynamic", "compile_region") if sizes_change(compiled) else (),
        )
    return None
