"""Each step takes longer than the one before."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent, three_digits
from advisor.profiles.derived.disturbance import disturbances
from advisor.profiles.derived.trends import Trend, grower, risen, sample_times, trend, trends
from advisor.profiles.facts.growing import Growth
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile

RISE = 0.2  # of the first steps' time, over the steps watched; set by experiment
ERROR = 0.3  # relative; half width: the line through the readings is a fit
OWN = frozenset({"hooks", "open_files", "threads", "children"})  # grow by the program alone
COMPUTING = ("forward", "backward", "optimizer")
PARTS = (*COMPUTING, "input_wait", "logging")


class RisingStepTime(Rule):
    """A step that does the same work should take the same time after an hour as in the first minute.

    Where each is a little slower than the last, something is longer in each step: hooks that are registered
    in every step and never removed, a list or a buffer that is searched or copied whole, a history that is
    logged again, hidden states that keep the graph of all steps before. A restart makes it fast again, which
    is why it is rarely looked for. The finding names the part of the step that rises, and the line met most
    in it. Do in each step only what is new, and take away again what was added. A rise beside other programs
    may be theirs: it is told only where hooks, files, threads or a variable of the program grow, too; memory
    also grows by what an allocator keeps. What forward, backward and optimizer rise by alike is the machine,
    which became slower. Where a step takes more samples than before, a sample counts.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "step times over many steps: a trace holds a few"
    threshold = (
        f"a steady rise (Theil-Sen, Kendall) by {100 * RISE:.0f} % over the steps watched (set by experiment)"
    )
    explains = ("unstable_steps", "launch_bound", "unattributed_time", "logging_bound")

    def check(self, profile: Profile) -> Finding:
        growth = profile.growth
        if growth is None or not any(each.kind == "step" for each in growth.readings):
            return self.not_applicable("step times over many steps", "needs a watched run")
        if profile.loader is not None and profile.loader.shapes_vary:
            return self.not_applicable("steps of one size", "its batches have several shapes")
        found = trends(profile)
        rising = found.get("step")
        if rising is None:
            return self.passed("the time of a step does not rise steadily")
        of_samples = sample_times(growth)
        if of_samples is not None:
            slower = trend(of_samples)
            if slower is None or slower.last - slower.first < RISE * slower.first:
                return self.passed("steps take more samples than before, and a sample takes no longer")
        rise = rising.last - rising.first
        if rise < RISE * rising.first:
            return self.passed(f"steps became {percent(rise / rising.first)} slower in {rising.steps} steps")
        if disturbances(profile) and not _grows(profile, found):
            return self.not_applicable(
                f"steps without other programs, beside which {_became(rising)}",
                "nothing that a step goes through grew meanwhile",
            )
        alike = 0.0 if _grows(profile, found) else _alike(growth)
        if (1 - alike) * rise < RISE * rising.first:
            return self.not_applicable(
                f"steps of a machine that stays as fast, while {_became(rising)}",
                f"forward, backward and optimizer rose alike, each by {percent(alike)} of that at least",
            )
        parts = [found[part] for part in PARTS if part in found]
        part = max(parts, key=lambda each: each.per_step, default=None)
        where = "between its parts"
        spots = [spot for spot in profile.hotspots if spot.phase == "other"]
        if part is not None and part.per_step >= rising.per_step / 2:
            where = f"in {part.kind}"
            spots = [spot for spot in profile.hotspots if spot.phase == part.kind]
        line = spots[0].location if spots else None
        advice, line = _advice(profile, where, line)
        share = rise / 2 / (rising.first + rise / 2)  # of all steps watched, as it rose evenly
        return self.opportunity(
            f"{three_digits(1e3 * rising.per_step)} us more in each step than in the last, {where}: "
            f"{_became(rising)}",
            self.timeline(share, ERROR),
            advice=advice,
            location=line,
            evidence={
                "rise_us_per_step": round(1e3 * rising.per_step, 3),
                "first_ms": round(rising.first, 4),
                "last_ms": round(rising.last, 4),
                "steps": rising.steps,
            },
        )


def _grows(profile: Profile, found: dict[str, Trend]) -> bool:
    """Whether something of the program's own grows from step to step beside the time."""
    return bool(OWN & found.keys()) or bool(profile.growth is not None and profile.growth.variables)


def _alike(growth: Growth) -> float:
    """How much of a step's rise all that computes shares, which no cause of a program's own does."""
    rises = {each.kind: risen(each) - 1 for each in growth.readings}
    if not rises.keys() >= {"step", *COMPUTING} or rises["step"] <= 0:
        return 0.0
    return min(1.0, max(0.0, min(rises[part] for part in COMPUTING)) / rises["step"])


def _became(rising: Trend) -> str:
    return f"{three_digits(rising.first)} ms became {three_digits(rising.last)} ms in {rising.steps} steps"


def _advice(profile: Profile, where: str, line: Location | None) -> tuple[str, Location | None]:
    hooks = trends(profile).get("hooks")
    if hooks is not None and profile.growth is not None:
        place = profile.growth.hooks_location or line
        return "Remove the hooks that each step registers, or register them once before the loop.", place
    variable = grower(profile, 1.0) or next(iter(profile.growth.variables if profile.growth else ()), None)
    if variable is not None:
        return (
            f"Look at what goes through `{variable.name}`, which has {variable.per_step:.2g} entries more "
            "after each step: keep what is needed, and visit what is new only.",
            variable.location or line,
        )
    return f"Find what becomes longer {where}: a list, a buffer, a history that each step visits whole.", line
