"""The same calls are made for one piece after the other, though no call needs another one's result."""

from collections.abc import Iterable

from advisor.advice.finding import Finding, Kind
from advisor.advice.line_rule import LineRule
from advisor.advice.rule import Family, percent
from advisor.profiles.derived.whole_steps import runs_steps
from advisor.profiles.facts.observed import LineCalls
from advisor.profiles.facts.profile import Profile, StepPhases

TURNS = 10  # of one line in a step, as for loops that index (torch pattern matcher)
MANY = 20  # where no layer is called: scales, losses and levels of a network are some; chosen, not measured
FREE = 8  # calls for each that needs the one before; set by experiment
THRESHOLD = 0.05  # of the step; set by experiment


class PiecewiseCalls(LineRule):
    """A layer that takes a batch is called for rows, samples or states one at a time.

    Each call costs microseconds of Python and of torch beside its arithmetic, forwards and backwards, and
    uses one core where a batch would use all. Call it once on all pieces: `head(features)` for `[head(row)
    for row in features]`, `torch.stack` or padding where pieces come in a list, `torch.vmap` for a function
    of one piece. A loss that goes through its samples or pairs in Python is the same without a layer: masks,
    `torch.cdist` and sums over a dimension do all of them at once. Loops in which a call needs
    the result of the one before, as a recurrence over time, are told apart by following the values of a
    step. The ceiling is all the time of these calls.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "which call needs which: a trace does not hold it"
    threshold = (
        f"{TURNS} calls with the same weights, {FREE} times as many as need each other (by experiment); "
        f"with a graph and no weights {MANY} (chosen: more than a network has scales or losses)"
    )
    explains = ("indexing_loop", "launch_bound", "unattributed_time", "idle_device")

    def judge(self, profile: Profile, phases: StepPhases) -> Finding:
        lines = [
            line
            for line in profile.line_calls
            if is_piecewise(line) and not runs_steps(profile, line.location)
        ]
        share = calls_share(lines, phases)
        layers = any(line.weights for line in lines) or not lines
        what = "calls layers" if layers else "computes"
        said = f"{percent(share)} of each step {what} for one piece after the other"
        if share < THRESHOLD or not lines:
            return self.passed(said)
        weighted = [line for line in lines if line.weights] or lines
        worst = max(weighted, key=lambda line: calls_share([line], phases))
        return self.opportunity(
            f"{said}: {worst.calls} calls at {worst.location}, of which {worst.chain} need each other",
            self.timeline(share),
            advice=_advice(worst, profile),
            location=worst.location,
            evidence={
                "lines": [
                    {"location": str(line.location), "turns": line.turns, "chain": line.chain}
                    for line in lines
                ]
            },
        )


def is_piecewise(line: LineCalls) -> bool:
    """Whether a line makes the same calls many times on what does not depend on each other."""
    least = TURNS if line.weights else MANY
    shared = line.weights <= line.turns / FREE and (line.weights > 0 or line.graphed)
    return line.turns >= least and line.turns >= FREE * line.chain and shared


def _advice(worst: LineCalls, profile: Profile) -> str:
    backwards = profile.gradients.per_update if profile.gradients is not None else 0.0
    single = profile.loader is not None and profile.loader.batch_size in (None, 1)
    if backwards >= TURNS and single:
        return (
            f"Take several samples at once, `DataLoader(..., batch_size={backwards:.0f})`, padded or joined "
            f"(graphs as parts of one), in place of {backwards:.0f} backwards before each update; sums may "
            "round differently."
        )
    if worst.weights:
        how = "`layer(x)` for `[layer(row) for row in x]`"
    else:
        names = ", ".join(f"`{name}`" for name in worst.functions)
        how = f"{names} over a dimension of the whole tensor, with a mask where pieces differ in length"
    apart = "; gradients of each sample by itself are `torch.func.vmap(torch.func.grad(loss))`"
    how += apart if backwards >= TURNS else ""
    return f"Give all pieces to one call at {worst.location}: {how}; sums may round differently."


def calls_share(lines: Iterable[LineCalls], phases: StepPhases) -> float:
    """Of the step: of each phase the lines' part, and as much of backward where a graph was recorded."""
    share = 0.0
    for line in lines:
        if hasattr(phases, f"{line.phase}_ms"):
            share += line.share * phases.share(line.phase)
        if line.graphed and line.phase == "forward":
            share += line.share * phases.share("backward")
    return min(1.0, share)
