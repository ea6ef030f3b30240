"""What rules share that judge the values which lines of the program compute in a step."""

from collections import defaultdict
from collections.abc import Iterable

from advisor.advice.finding import Finding
from advisor.advice.rule import Rule
from advisor.profiles.facts.observed import LineCalls
from advisor.profiles.facts.profile import Profile, StepPhases

MAKE_GRAPHS = ("forward", "other")  # a loss of the program's own is in no known part


class LineRule(Rule):
    """A rule over ``Profile.line_calls``; abstains where none was recorded or followed by a mode."""

    def check(self, profile: Profile) -> Finding:
        """Judge one run, if its lines are known."""
        phases = profile.phases
        if phases is None or phases.step_ms <= 0:
            return self.not_applicable("no steps were recorded")
        if not profile.line_calls:
            return self.not_applicable("values that lines compute", "need steps that a mode can follow")
        return self.judge(profile, phases)

    def judge(self, profile: Profile, phases: StepPhases) -> Finding:
        """Judge a run whose lines are known."""
        raise NotImplementedError


def paid(parts: Iterable[tuple[LineCalls, float]], phases: StepPhases) -> float:
    """Share (0 to 1) of the step that parts of lines take.

    Args:
        parts: Lines, each with a share (0 to 1) of the time of all calls of its phase. Of backward as much is
            counted as lines that record a graph have of the phases that do.
        phases: Of the step.
    """
    shares: dict[str, float] = defaultdict(float)
    graphed: dict[str, float] = defaultdict(float)
    for line, share in parts:
        shares[line.phase] += share
        if line.graphed and line.phase in MAKE_GRAPHS:
            graphed[line.phase] += share
    recorded_ms = {phase: getattr(phases, f"{phase}_ms") for phase in {"forward", *graphed}}
    spent_ms = sum(share * recorded_ms[phase] for phase, share in graphed.items())
    if spent_ms > 0:
        shares["backward"] += spent_ms / sum(recorded_ms.values())
    known = {phase for phase in shares if hasattr(phases, f"{phase}_ms")}
    return sum(min(1.0, shares[phase]) * phases.share(phase) for phase in known)
