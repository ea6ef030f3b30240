"""Compiling takes longer than the compiled steps save."""

from typing import Any

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile
from advisor.rules.recompiles import seconds


class CompileUnrecovered(Rule):
    """Compiling is paid before it saves: the run must be long enough to earn it back.

    A model takes from seconds to minutes to compile; each step then saves some time against the same step
    uncompiled. Where the planned steps save less than compiling took, the run is slower than without it.
    Run short experiments without `torch.compile`. For repeated runs keep the cache between them
    (`TORCHINDUCTOR_CACHE_DIR=/a/folder/that/stays`), or compile one repeated block only.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "time of compiling and planned steps: a trace does not tell"
    threshold = "planned steps x time saved per step below the time of compiling (by definition)"
    knobs = ("execution", "compile_region")
    explains = ("slow_start",)

    def check(self, profile: Profile) -> Finding:
        compiled, phases, run = profile.compile, profile.phases, profile.run
        if compiled is None or not compiled.frames:
            return self.not_applicable("compiled frames", "the program runs nothing under torch.compile")
        if phases is None or phases.step_ms <= 0:
            return self.not_applicable("no steps were recorded")
        if not compiled.seconds:
            return self.passed("0 s of compilation")
        if compiled.eager_step_ms is None:
            return self.not_applicable("time of an uncompiled step", "needs a replay without graphs")
        saved_ms = compiled.eager_step_ms - phases.step_ms
        evidence: dict[str, Any] = {
            "compile_s": round(compiled.seconds, 3),
            "saved_ms_per_step": round(saved_ms, 4),
            "step_ms": round(phases.step_ms, 4),
        }
        compiling = seconds(compiled.seconds)
        needed = 1000 * compiled.seconds / saved_ms if saved_ms > 0 else None
        if needed is not None:
            evidence["steps_to_recover"] = round(needed)
        planned = run.steps_total if run is not None else None
        advice = (
            "Leave `torch.compile` out of runs this short, or keep what it made between runs: "
            "`TORCHINDUCTOR_CACHE_DIR=FOLDER`."
        )
        if planned is None:
            seen = run.steps_seen if run is not None else 0
            if needed is not None and needed <= seen:
                return self.passed(f"{needed:,.0f} steps recover the {compiling} of compiling")
            after = f"{needed:,.0f} steps recover it" if needed is not None else "no step is faster for it"
            return self.diagnostic(
                f"{compiling} of compiling: {after}",
                advice=advice,
                severity=Severity.LOW,
                evidence=evidence,
            )
        saved_s = planned * max(0.0, saved_ms) / 1000
        evidence["planned_steps"] = planned
        if saved_s >= compiled.seconds:
            return self.passed(f"{seconds(saved_s)} saved for {compiling} of compiling", **evidence)
        run_s = planned * phases.step_ms / 1000 + compiled.seconds
        return self.opportunity(
            f"{compiling} of compiling save {seconds(saved_s)} in the planned {planned:,} steps",
            self.timeline(compiled.seconds / run_s, of="run"),
            advice=advice,
            evidence=evidence,
        )
