"""Results are computed of which most is thrown away."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.line_rule import LineRule, paid
from advisor.advice.rule import Family, percent
from advisor.profiles.facts.observed import LineCalls
from advisor.profiles.facts.profile import Profile, StepPhases

THRESHOLD = 0.05  # of the step, as for work that is done again (set by experiment)


class UnreadResults(LineRule):
    """A product is computed for all rows, and an index takes few of them, or a factor sets most to zero.

    Scores over a vocabulary are computed at every place of a text and those of the last one are used; every
    expert of a mixture goes over all rows and is multiplied by zero where it was not chosen; a head answers
    for places that a mask leaves out. Backward then computes gradients that are zero. Take the rows first and
    compute for these alone: the values are the same. What is read is followed through two steps; the ceiling
    is the part of the time of all calls that made what nothing reads, and as much of backward where they
    record a graph.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "what is read of results: a trace does not hold it"
    threshold = "at least 5 % of the step computes what is left out or multiplied by zero (set by experiment)"
    explains = (
        "hot_line",
        "fp32_matmul",
        "amp_unused",
        "piecewise_calls",
        "launch_bound",
        "unfused_pointwise",
    )

    def judge(self, profile: Profile, phases: StepPhases) -> Finding:
        """Judge a run whose lines are known."""
        lines = [line for line in profile.line_calls if line.unread is not None]
        share = _share(lines, phases)
        said = f"{percent(share)} of each step computes what nothing reads"
        worst = max(lines, key=lambda line: _share([line], phases), default=None)
        if share < THRESHOLD or worst is None or worst.unread is None:
            return self.passed(said)
        unread = worst.unread
        what = f"`{unread.functions[0]}` at {worst.location}"
        left = "zeros erase the rest" if unread.masked else "an index leaves out the rest"
        times = f", {unread.calls} calls" if unread.calls > 1 else ""
        return self.opportunity(
            f"{said}: {percent(unread.read)} of {what} is used{times}, {left}",
            self.timeline(share),
            advice=(
                f"Pass to {what} only rows whose factor is not zero, `rows = factor.nonzero()`, and add what "
                "comes out in its place, `out.index_add(0, rows, ...)`."
                if unread.masked
                else f"Take that part of what goes into {what}, in place of what comes out."
            ),
            location=worst.location,
            evidence={
                "read_share": round(unread.read, 3),
                "calls_per_step": unread.calls,
                "functions": list(unread.functions),
                "lines": [str(line.location) for line in lines],
            },
        )


def _share(lines: list[LineCalls], phases: StepPhases) -> float:
    return paid(((line, line.unread.share) for line in lines if line.unread is not None), phases)
