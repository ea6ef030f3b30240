"""More hooks hang on the modules after each step."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.derived.trends import trends
from advisor.profiles.facts.profile import Profile

PILED = 10  # hooks more than at first, over the steps watched; set by experiment


class PilingHooks(Rule):
    """A hook stays until its handle removes it, so one registered in every step runs once more in each.

    Every call takes about ten microseconds and what the hook itself does, in each step more often: the run
    slows down all the time, its outputs are kept alive by what the hooks hold, and `torch.compile` compiles
    anew whenever the hooks of a module change. Register hooks once before the loop, or keep the handles and
    call `handle.remove()` before the step ends.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "hooks of modules: a trace does not hold them"
    threshold = f"{PILED} hooks more than at first, rising steadily (set by experiment)"
    explains = (
        "rising_step_time",
        "repeated_work",  # each of the hooks computes the same of the same output
        "launch_bound",
        "memory_growth",
        "recompiles",
        "unattributed_time",
    )
    severity = Severity.HIGH
    timed = False

    def check(self, profile: Profile) -> Finding:
        growth = profile.growth
        if growth is None:
            return self.not_applicable("hooks over many steps", "needs a watched run")
        found = trends(profile)
        piling = found.get("hooks")
        if piling is None or piling.last - piling.first < PILED:
            return self.passed("no hooks pile up")
        step = found.get("step")
        slower = ""
        if step is not None:
            slower = f"; a step took {step.first:.3g} ms and takes {step.last:.3g} ms after {step.steps} more"
        line = growth.hooks_location
        there = "" if line is None else f" at line {line.line}"
        return self.diagnostic(
            f"{piling.per_step:.3g} hooks more hang on the modules after each step{slower}",
            advice=f"Register the hooks{there} once before the loop, or remove them in each step: keep what "
            "`register_forward_hook` returns and call its `remove()`.",
            location=line,
            evidence={
                "hooks_per_step": round(piling.per_step, 3),
                "hooks": int(piling.last),
                "steps": piling.steps,
            },
        )
