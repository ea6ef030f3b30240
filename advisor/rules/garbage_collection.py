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
    with `gc.disable()` and `gc.collect()` between epochs. A `gc.collect()` in each step is paid in each step:
    what is in no cycle is given back at once without it, tensors and their graphs among it.
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
        asked = run.gc_asked_s > run.gc_s / 2
        by = f" that `gc.collect()` at {run.gc_location} asks for" if asked and run.gc_location else ""
        return self.opportunity(
            f"{title}, in {run.gc_collections} pauses{by}",
            self.timeline(share, of="run"),
            advice="Take `gc.collect()` out of the step, or call it every few hundred steps: Python "
            "collects by itself, and gives back at once what is in no cycle."
            if asked
            else "Call `gc.collect(); gc.freeze()` after the first steps; memory of frozen objects that "
            "form cycles is then never given back.",
            location=run.gc_location if asked else None,
            evidence={
                "gc_s": round(run.gc_s, 4),
                "run_s": round(run.wall_s, 4),
                "gc_collections": run.gc_collections,
            },
        )
