"""Python's garbage collector interrupts the training loop."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

THRESHOLD = 0.01  # of the run's time since its first step; set by experiment


class GarbageCollection(Rule):
    """The collector stops the program to look for cycles among all objects that are alive.

    A large dataset held as Python objects makes each full pass long, and the objects a training step makes
    trigger passes again and again, mostly in vain. Set the long-lived objects aside after the first steps:
    `gc.collect(); gc.freeze()`. Where single steps must not stall, collect at moments of your own choice
    with `gc.disable()` and `gc.collect()` between epochs.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "collections of garbage: a trace does not hold them"
    threshold = "collector pauses above 1 % of the time since the first step (set by experiment)"
    knobs = ("gc_freeze",)
    explains = ("unstable_steps", "unattributed_time")

    def check(self, profile: Profile) -> Finding:
        run = profile.run
        if run is None or not run.wall_s:
            return self.not_applicable("time of the run", "no steps were recorded")
        share = min(1.0, run.gc_s / run.wall_s)
        title = f"{percent(share)} of the run collects garbage"
        if share <= THRESHOLD:
            return self.passed(title)
        return self.opportunity(
            f"{title}, in {run.gc_collections} pauses",
            self.timeline(share, of="run"),
            advice="Call `gc.collect(); gc.freeze()` after the first steps; memory of frozen objects that "
            "form cycles is then never given back.",
            evidence={
                "gc_s": round(run.gc_s, 4),
                "run_s": round(run.wall_s, 4),
                "gc_collections": run.gc_collections,
            },
        )
