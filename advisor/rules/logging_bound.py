"""Logging takes a part of every step."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

THRESHOLD = 0.03  # of the step; set by experiment
EVERY = 50  # steps, in the advice


class LoggingBound(Rule):
    """Printing, writers and progress bars run in the training loop, and the step waits for them.

    One line per step is cheap to write but each call formats, locks and flushes, and on a GPU the logged
    value must first be waited for. Nobody reads a value per step of a long run. Log every few steps:
    `if step % 50 == 0: print(loss.item())`, and sum on the device in between.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "time of logging: a trace does not tell"
    threshold = "logging at least 3 % of the step (set by experiment)"
    explains = ("unstable_steps",)

    def check(self, profile: Profile) -> Finding:
        phases, run = profile.phases, profile.run
        if phases is None or run is None:
            return self.not_applicable("time of logging", "no steps were recorded")
        share = phases.share("logging")
        if share < THRESHOLD:
            return self.passed(f"{percent(share)} of the step logs")
        calls = f", {run.log_calls_per_step:.2g} calls each" if run.log_calls_per_step >= 1 else ""
        hottest = max(
            (spot for spot in profile.hotspots if spot.phase == "logging"),
            key=lambda spot: spot.share,
            default=None,
        )
        return self.opportunity(
            f"{percent(share)} of each step logs{calls}",
            self.timeline(share),
            advice=f"Log every {EVERY} steps: `if step % {EVERY} == 0:`; values between are then not shown.",
            location=run.log_location or (hottest.location if hottest is not None else None),
            evidence={
                "logging_ms": round(phases.logging_ms, 4),
                "step_ms": round(phases.step_ms, 4),
                "log_calls_per_step": round(run.log_calls_per_step, 2),
            },
        )
