"""Some steps take much longer than most."""

import math
from statistics import pstdev

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.trends import sample_times, trends
from advisor.profiles.facts.growing import Growth
from advisor.profiles.facts.profile import Profile

OUTLIERS = 10  # more steps than this beyond 3 sigma (SageMaker Debugger)
SPREAD = 1.5  # slow end (p95) over median; set by experiment
BUSY, STARVED = 0.70, 0.10  # device use at its 95th and 5th percentile (SageMaker Debugger)
BY_SAMPLES = 0.5  # of the spread of steps, in logarithms, that samples have at most; set by experiment
FEWEST = 10  # steps, below which a slow end says nothing
ERROR = 0.4  # relative: a mean over few slow steps; medium begins at mean / median = 1.2

CAUSES = {
    "gc": "call `gc.freeze()` after the first steps",
    "shape": "group samples of similar length into a batch, which changes their order",
    "save": "save in the background",
    "evaluation": "evaluate less often",
    "epoch": "keep the loader's workers: `persistent_workers=True`",
    "compile": "mark varying sizes as dynamic: `torch.compile(dynamic=True)`",
    "logging": "log every few steps",
}


class UnstableSteps(Rule):
    """The same work should take the same time; steps far slower than the median wait for something.

    Usual causes are the garbage collector, batches of other shapes, saving, slow storage, or other programs
    on the machine. Each slow step also holds up every other rank of a distributed run. Look at what the
    slow steps have that the others have not; the finding names it where it was seen.
    """

    family = Family.HOST
    kind = Kind.RISK
    on_traces = "distribution of the steps: needs 10 whole steps at least"
    threshold = (
        f"more than {OUTLIERS} steps beyond 3 sigma, or device use between 10 % and 70 % "
        f"(SageMaker Debugger), or p95 at {SPREAD} x the median (set by experiment)"
    )

    def check(self, profile: Profile) -> Finding:
        series, window = profile.series, profile.window
        if series is None or series.mean_ms <= 0 or series.median_ms <= 0:
            return self.not_applicable("distribution of the steps", "no steps were watched")
        if series.steps < FEWEST:
            return self.not_applicable(f"{series.steps} steps", f"needs {FEWEST}")
        if "step" in trends(profile):
            return self.passed("steps become slower steadily, not now and then")
        if _go_with_samples(profile.growth):
            return self.passed("steps take as long as they have samples, which are not equally many")
        device = window.device if window is not None else None
        swings = (
            device is not None
            and device.busy_p95 is not None
            and device.busy_p5 is not None
            and device.busy_p95 > BUSY
            and device.busy_p5 < STARVED
        )
        spread = series.p95_ms / series.median_ms
        if series.outliers <= OUTLIERS and spread < SPREAD and not swings:
            return self.passed(f"{series.outliers} of {series.steps} steps are far slower than the median")
        share = max(0.0, 1 - series.median_ms / series.mean_ms)
        flag = max(series.outlier_flags, key=lambda each: each[1], default=("", 0))
        return self.opportunity(
            f"{percent(share)} of the time goes to slow steps: {series.outliers} of {series.steps} are far "
            f"slower, the slowest twentieth {spread:.2g}x the median",
            self.timeline(share, ERROR),
            advice=_advice(*flag),
            evidence={
                "median_ms": round(series.median_ms, 4),
                "mean_ms": round(series.mean_ms, 4),
                "p95_ms": round(series.p95_ms, 4),
                "outliers": series.outliers,
                "steps": series.steps,
                "flags": dict(series.outlier_flags),
            },
        )


def _go_with_samples(growth: Growth | None) -> bool:
    """Whether slow steps are those that have more samples: the time of a sample differs much less."""
    of_samples = sample_times(growth)
    if growth is None or of_samples is None:
        return False
    of_steps = next(each for each in growth.readings if each.kind == "step")
    spreads = [pstdev(map(math.log, each.values)) for each in (of_samples, of_steps)]
    return spreads[0] <= BY_SAMPLES * spreads[1]


def _advice(flag: str, count: int) -> str:
    if not count:
        return "Compare a slow step with a usual one: batch, storage, other programs on this machine."
    what = CAUSES.get(flag, "look at what happens there")
    return f"{count} slow steps come with `{flag}`: {what}."
