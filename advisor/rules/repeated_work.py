"""The same is computed again from inputs that have not changed."""

from collections import defaultdict
from collections.abc import Iterable

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.asking_lines import asks
from advisor.profiles.facts.observed import LineCalls
from advisor.profiles.facts.profile import Profile, StepPhases

THRESHOLD = 0.05  # of the step; set by experiment
FEW = 2  # times that the same is computed in a step, where it is no loop that does
LEAST_SHARE = 0.02  # of its phase, of a line that is counted
LEAST_PART = 0.1  # of its calls: fewer are equal by chance, as rows of a batch may be. Chosen, not measured


class RepeatedWork(Rule):
    """A line calls functions of torch with the arguments of an earlier call, so it gets the same values.

    A parametrized weight (`torch.nn.utils.parametrize`, orthogonal, spectral or weight norm) is computed at
    every access; masks, positions and kernels are often made anew in each forward. What records a graph is
    paid in backward as well. Compute it once, in front of the loop or in the constructor, and keep it;
    parametrized weights are kept within `with torch.nn.utils.parametrize.cached():` around the forward and
    its loss. Equal values are known from the functions and their inputs, followed through two steps; random
    numbers, changed parameters and new batches make other values. The ceiling is the repeated part of the
    time of all calls.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "values of inputs: a trace does not hold them"
    threshold = "at least 5 % of the step computes what was computed before (set by experiment)"
    explains = ("launch_bound", "unattributed_time", "unfused_pointwise", "idle_device")

    def check(self, profile: Profile) -> Finding:
        phases = profile.phases
        if phases is None or phases.step_ms <= 0:
            return self.not_applicable("no steps were recorded")
        if not profile.line_calls:
            return self.not_applicable(
                "values that lines compute", "need two steps that torch's modes can follow"
            )
        lines = [
            line
            for line in profile.line_calls
            if line.repeated_share >= LEAST_SHARE
            and (line.repeated_across or line.repeated >= LEAST_PART * line.calls)
            and not asks(profile, line.location)
        ]
        share = _share(lines, phases)
        said = f"{percent(share)} of each step computes again what it has"
        if share < THRESHOLD or not lines:
            return self.passed(said)
        worst = max(lines, key=lambda line: _share([line], phases))
        within = worst.repeated - worst.repeated_across
        what = (
            "a parametrized weight"
            if worst.parametrized
            else f"`{(worst.repeated_functions or worst.functions)[0]}`"
        )
        return self.opportunity(
            f"{said}: {what}, {worst.repeated} of {worst.calls} calls a step at {worst.location}",
            self.timeline(share),
            advice=_advice(worst, within),
            location=worst.location,
            evidence={
                "lines": [
                    {
                        "location": str(line.location),
                        "functions": list(line.repeated_functions or line.functions),
                        "calls": line.calls,
                        "repeated": line.repeated,
                        "from_the_step_before": line.repeated_across,
                        "share_of_phase": round(line.repeated_share, 3),
                        "phase": line.phase,
                    }
                    for line in lines
                ],
            },
        )


def _share(lines: Iterable[LineCalls], phases: StepPhases) -> float:
    """Of the step: of each phase the repeated part, and as much of backward where a graph was recorded."""
    repeated: dict[str, float] = defaultdict(float)
    for line in lines:
        repeated[line.phase] += line.repeated_share
        repeated["backward"] += line.repeated_share * (line.graphed and line.phase == "forward")
    known = {phase for phase in repeated if hasattr(phases, f"{phase}_ms")}
    return sum(min(1.0, repeated[phase]) * phases.share(phase) for phase in known)


def _advice(line: LineCalls, within: int) -> str:
    if line.parametrized:
        return (
            "Compute the weight once a step: put forward and loss into "
            "`with torch.nn.utils.parametrize.cached():`."
        )
    if line.repeated_across == 0 and line.calls <= FEW * (line.calls - line.repeated):
        return f"Keep what the first call gives, and use it again: {line.location} makes it twice in a step."
    if line.repeated_across == 0 and line.repeated == line.calls:
        return f"Use what the step computed before: all that {line.location} makes was made earlier in it."
    if within >= line.repeated_across and line.repeated < line.calls:  # else nothing of it is ever new
        return (
            f"Compute it once in front of the loop around {line.location}, and use the result in each turn."
        )
    return (
        f"Compute it once before the first step, and keep the result: {line.location} makes it in every step."
    )
