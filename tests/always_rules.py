"""Rules that say the same of every run."""

from collections.abc import Callable
from typing import Any

from builders import a_profile

from advisor.advice.advise import advise
from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile


class Always(Rule):
    """Says the same of every run."""

    family = Family.HOST
    threshold = "always"
    kind = Kind.WASTE

    def __init__(self, name: str, says: Callable[["Always", Profile], Finding], **attributes: Any) -> None:
        self.name = name
        self.says = says
        for attribute, value in attributes.items():
            setattr(self, attribute, value)

    @property
    def id(self) -> str:
        return self.name

    def check(self, profile: Profile) -> Finding:
        return self.says(self, profile)


def a_rule(name: str, share: float = 0.3, **attributes: Any) -> Always:
    """A rule whose finding claims ``share`` of the step, from measured times."""
    return Always(
        name, lambda rule, _: rule.opportunity(name, rule.timeline(share), advice="Do."), **attributes
    )


def a_note(name: str, severity: Severity = Severity.MEDIUM, **attributes: Any) -> Always:
    """A rule whose finding has no ceiling."""
    return Always(name, lambda rule, _: rule.diagnostic(name, advice="Do.", severity=severity), **attributes)


def said(profile: Profile, *rules: Always) -> dict[str, Finding]:
    return {finding.rule: finding for finding in advise(profile, {rule.id: rule for rule in rules})}


def order(*rules: Always, profile: Profile | None = None) -> list[str]:
    found = advise(profile or a_profile(), {rule.id: rule for rule in rules})
    return [finding.rule for finding in found]
