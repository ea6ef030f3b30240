"""The first step comes late."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

SHARE = 0.10  # of the planned run; set by experiment
LONG_S = 20 * 60.0  # SageMaker Debugger
USUAL_S = 30.0  # importing torch and building a model take several seconds anywhere; set by experiment


class SlowStart(Rule):
    """Everything before the first step is paid again at each start, each crash and each experiment.

    Usual causes are data that is copied or indexed at the start, a compilation without a cache, heavy
    imports, and weights that are initialised and then overwritten. Prepare data once and store it, keep the
    compile cache (`TORCHINDUCTOR_CACHE_DIR`), and import what is rarely used where it is used. The share is
    that of the planned run: pass `--steps-planned` where the program does not say how long it is.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "time before the first step: a trace does not hold it"
    threshold = (
        f"first step after {LONG_S / 60:.0f} min (SageMaker Debugger), or after {USUAL_S:.0f} s and "
        "10 % of the planned run (set by experiment)"
    )

    def check(self, profile: Profile) -> Finding:
        run, phases = profile.run, profile.phases
        if run is None or run.startup_s is None:
            return self.not_applicable("time of the start", "no steps were recorded")
        advice = "Do once what every start repeats: store prepared data, keep `TORCHINDUCTOR_CACHE_DIR`."
        seconds = f"{run.startup_s:,.0f} s" if run.startup_s >= 100 else f"{run.startup_s:.3g} s"
        if run.startup_s <= USUAL_S:
            return self.passed(f"{seconds} before the first step")
        if run.steps_total is None or phases is None or phases.step_ms <= 0:
            if run.startup_s > LONG_S:
                return self.diagnostic(
                    f"{seconds} before the first step", advice=advice, evidence={"startup_s": run.startup_s}
                )
            return self.not_applicable(
                f"planned length of the run ({seconds} before the first step)", "pass `--steps-planned`"
            )
        training_s = run.steps_total * phases.step_ms / 1e3
        share = run.startup_s / (run.startup_s + training_s)
        title = f"{percent(share)} of the planned run comes before the first step ({seconds})"
        if share < SHARE and run.startup_s <= LONG_S:
            return self.passed(title)
        return self.opportunity(
            title,
            self.timeline(share, of="run"),
            advice=advice,
            evidence={
                "startup_s": round(run.startup_s, 2),
                "steps_planned": run.steps_total,
                "step_ms": round(phases.step_ms, 4),
            },
        )
