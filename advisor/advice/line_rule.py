"""What rules share that judge the values which lines of the program compute in a step."""

from advisor.advice.finding import Finding
from advisor.advice.rule import Rule
from advisor.profiles.facts.profile import Profile, StepPhases


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
