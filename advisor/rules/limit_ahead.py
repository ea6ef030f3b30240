"""Each step takes more of something of which there is an end, and the run will meet it."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.derived.trends import KEPT, Trend, grower, trends, within
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile

LEAST_STEPS = 50  # fewer are still warming up (TraceML, of memory)
KINDS = {
    "open_files": ("open files", "close what each step opens, or raise `ulimit -n`"),
    "threads": ("threads", "start a pool of threads once before the loop"),
    "children": ("child processes", "start a pool of processes once before the loop"),
    "mapped": ("mapped bytes", "drop the mappings that each step makes"),
    "shared_memory": ("bytes in /dev/shm", "keep copies of what is kept: `tensor.clone()`"),
    "written": ("bytes written", "keep the last few checkpoints or logs, and write more rarely"),
}
"""Kind of readings: what it is called, and what to do. Memory has a rule of its own, ``memory_growth``."""

OPEN = (*KEPT, "files")  # what an entry that holds a file open can be
CLONE = (
    "Keep copies in `{name}`, not the loader's own tensors: `.clone()` of each that is kept. A tensor from a "
    "worker lies in shared memory and holds a file open as long as it lives; "
    '`torch.multiprocessing.set_sharing_strategy("file_system")` avoids the files, not the memory.'
)


class LimitAhead(Rule):
    """The system lets a process have so many open files, threads, mappings and bytes, and then the run ends.

    It looks well in each short trial and dies hours later, with "too many open files", "can't start new
    thread" or "no space left on device". Usual causes: tensors of a loader's workers that are kept in a
    list, each of which holds a file open; files or loggers opened in every step; pools started anew in each
    evaluation; a checkpoint for every step. The finding says how fast it rises, at which step the limit is
    met, and which variable grows with it. Give back what a step took, or keep a copy of what must be kept.
    """

    family = Family.HOST
    kind = Kind.RISK
    on_traces = "open files, threads and disk space: a trace does not hold them"
    threshold = (
        "a steady rise (Theil-Sen, Kendall) that meets a limit of the system within the planned run, within "
        "an epoch, or, where neither is known, within a day (set by experiment)"
    )
    severity = Severity.HIGH
    fatal = True
    timed = False

    def check(self, profile: Profile) -> Finding:
        if profile.growth is None:
            return self.not_applicable("open files, threads and disk space", "needs a watched run")
        ahead = limits_ahead(profile)
        if not ahead:
            return self.passed("no limit of the system is met within the run")
        first = ahead[0]
        what, advice = KINDS[first.kind]
        advice, line = _advice(profile, first, f"{advice[0].upper()}{advice[1:]}.")
        return self.diagnostic(
            told(profile, first),
            advice=advice,
            location=line,
            evidence={
                "kind": what,
                "per_step": round(first.per_step, 4),
                "limit": first.limit,
                "limit_met_at_step": first.met_at,
            },
        )


def limits_ahead(profile: Profile) -> list[Trend]:
    """What rises to a limit within the run, the one that is met first at the head."""
    found = [
        each
        for each in trends(profile).values()
        if each.kind in KINDS
        and each.steps >= LEAST_STEPS
        and each.met_at is not None
        and within(profile, each.met_at) is not None
    ]
    return sorted(found, key=lambda each: each.met_at or 0)


def told(profile: Profile, trend: Trend) -> str:
    """One sentence: the rate, the limit, and when it is met."""
    what, _ = KINDS[trend.kind]
    when = within(profile, trend.met_at or 0)
    return (
        f"{trend.per_step:,.3g} more {what} after each step: the limit of {trend.limit:,.0f} is met at step "
        f"{trend.met_at:,} {when}"
    )


def _advice(profile: Profile, trend: Trend, usual: str) -> tuple[str, Location | None]:
    variable = grower(profile, trend.per_step, OPEN if trend.kind == "open_files" else ())
    if variable is None:
        return usual, None
    if variable.holds in KEPT:
        return CLONE.format(name=variable.name), variable.location
    return f"{usual} `{variable.name}` grows with it.", variable.location
