"""What a rule says about a run: a value with its state, place, ceiling and advice."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from advisor.profiles.facts.observed import Location


class Kind(StrEnum):
    """What a finding is about."""

    WASTE = "waste"
    HEADROOM = "headroom"
    RISK = "risk"


class State(StrEnum):
    """How a check came out; the last three say nothing against the run."""

    OPPORTUNITY = "opportunity"
    DIAGNOSTIC = "diagnostic"
    PASSED = "passed"
    NOT_APPLICABLE = "not_applicable"
    ERROR = "error"


class Severity(StrEnum):
    """How much it matters."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Outcome(StrEnum):
    """What came of trying the advice on the user's own run."""

    CONFIRMED = "confirmed"
    NO_EFFECT = "no_effect"
    HARMFUL = "harmful"
    NOT_TESTED = "not_tested"


@dataclass(frozen=True)
class Ceiling:
    """The share (0 to 1) that could go at most, with the bounds of its interval.

    ``source`` says where it comes from: ``replay`` (measured with that part left out), ``timeline``
    (measured times) or ``model`` (computed). ``of`` is what it is a share of: the steady-state ``step``,
    or the whole planned ``run``.
    """

    share: float
    low: float
    high: float
    source: Literal["replay", "timeline", "model"]
    of: Literal["step", "run"] = "step"

    @property
    def speedup(self) -> float:
        """At most so much faster if that part were free."""
        return 1 / (1 - min(self.share, 0.999))


@dataclass(frozen=True)
class Finding:
    """What one rule said about one run.

    ``explains`` is the symptom's rule, where this is its cause and both were found. ``evidence`` holds the
    numbers behind the title, units in their names. ``measured`` is a speed-up with its bounds, from
    trying the advice, and ``why`` the reason where it was not tried.
    """

    rule: str
    kind: Kind
    state: State
    severity: Severity | None = None
    title: str = ""
    location: Location | None = None
    ceiling: Ceiling | None = None
    explains: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    advice: str = ""
    knobs: tuple[str, ...] = ()
    outcome: Outcome = Outcome.NOT_TESTED
    measured: tuple[float, float, float] | None = None
    why: str = ""

    @property
    def fired(self) -> bool:
        """Whether the rule found something."""
        return self.state in (State.OPPORTUNITY, State.DIAGNOSTIC)
