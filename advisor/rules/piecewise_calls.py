"""The same layers are called for one piece after the other, though no call needs another one's result."""

from collections.abc import Iterable

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.observed import LineCalls
from advisor.profiles.facts.profile import Profile, StepPhases

TURNS = 10  # of one line in a step, as for loops that index (torch pattern matcher)
FREE = 8  # calls for each that needs the one before; set by experiment
THRESHOLD = 0.05  # of the step; set by experiment


class PiecewiseCalls(Rule):
    """A layer that takes a batch is called for rows, samples or states one at a time.

    Each call costs microseconds of Python and of torch beside its arithmetic, forwards and backwards, and
    uses one core where a batch would use all. Call it once on all pieces: `head(features)` for `[head(row)
    for row in features]`, `torch.stack` or padding where pieces come in a list, `torch.vmap` for a function
    of one piece. Loops in which a call needs the result of the one before, as a recurrence over time, are
    told apart by following the values of a step. The ceiling is all the time of these calls.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "which call needs which: a trace does not hold it"
    threshold = (
        f"{TURNS} calls with the same weights, {FREE} times as many as need each other (by experiment)"
    )
    explains = ("indexing_loop", "launch_bound", "unattributed_time", "idle_device")

    def check(self, profile: Profile) -> Finding:
        phases = profile.phases
        if phases is None or phases.step_ms <= 0:
            return self.not_applicable("no steps were recorded")
        if not profile.line_calls:
            return self.not_applicable("values that lines compute", "need steps that a mode can follow")
        lines = [line for line in profile.line_calls if is_piecewise(line)]
        share = calls_share(lines, phases)
        said = f"{percent(share)} of each step calls layers for one piece after the other"
        if share < THRESHOLD or not lines:
            return self.passed(said)
        worst = max(lines, key=lambda line: line.share)
        return self.opportunity(
            f"{said}: {worst.calls} calls at {worst.location}, of which {worst.chain} need each other",
            self.timeline(share),
            advice=f"Give all pieces to one call at {worst.location}: `layer(x)` for "
            "`[layer(row) for row in x]`; sums may round differently.",
            location=worst.location,
            evidence={
                "lines": [
                    {"location": str(line.location), "turns": line.turns, "chain": line.chain}
                    for line in lines
                ]
            },
        )


def is_piecewise(line: LineCalls) -> bool:
    """Whether a line calls the same layers many times on what does not depend on each other."""
    return line.turns >= TURNS and line.turns >= FREE * line.chain and 0 < line.weights <= line.turns / FREE


def calls_share(lines: Iterable[LineCalls], phases: StepPhases) -> float:
    """Of the step: of each phase the lines' part, and as much of backward where a graph was recorded."""
    share = 0.0
    for line in lines:
        if hasattr(phases, f"{line.phase}_ms"):
            share += line.share * phases.share(line.phase)
        if line.graphed and line.phase == "forward":
            share += line.share * phases.share("backward")
    return min(1.0, share)
