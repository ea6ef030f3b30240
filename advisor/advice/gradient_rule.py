"""What rules share that judge what the backwards of a step bring."""

from advisor.advice.finding import Finding
from advisor.advice.rule import Rule
from advisor.profiles.facts.observed import GradientFacts
from advisor.profiles.facts.profile import Profile, StepPhases


class GradientRule(Rule):
    """A rule over ``Profile.gradients``; abstains where no backward was followed node by node."""

    def check(self, profile: Profile) -> Finding:
        """Judge one run, if its backwards are known."""
        phases = profile.phases
        if phases is None or phases.step_ms <= 0:
            return self.not_applicable("no steps were recorded")
        if profile.gradients is None:
            return self.not_applicable("what backwards bring", "needs steps that are looked at closely")
        return self.judge(profile.gradients, phases)

    def judge(self, gradients: GradientFacts, phases: StepPhases) -> Finding:
        """Judge a run whose backwards are known."""
        raise NotImplementedError
