"""The contract of a rule: facts in, one finding out. A rule is one file in ``rules/``."""

import dataclasses
from enum import StrEnum
from typing import Any, ClassVar, Literal

from advisor.advice.finding import Ceiling, Finding, Kind, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.replayed import Share

HIGH = 0.20  # of the step or run, lower end of the ceiling; TraceML's bands, as TensorFlow's 5/20
MEDIUM = 0.10
MODEL_ERROR = 0.3  # relative; half width of the interval of a modelled ceiling
TIMELINE_ERROR = 0.1  # relative; the same for one summed from measured times
WARMER = 0.3
"""Without the part that is summed, the rest of a step finds its data in the caches and its threads awake, and
became up to this share faster (``benchmarks/ceilings.py``)."""


class Family(StrEnum):
    """The part of a run that a rule is about."""

    INPUT = "input"
    SYNCHRONISATION = "synchronisation"
    COMPUTE = "compute"
    OPTIMIZER = "optimizer"
    MEMORY = "memory"
    HOST = "host"
    DISTRIBUTED = "distributed"
    NUMERICS = "numerics"


class Rule:
    """One thing that can be wrong with a run, or could be better.

    The class docstring is the rule's page: what happens, why it costs time, what to do.

    Class attributes:
        family: Where the page is listed.
        kind: What its findings are about.
        threshold: When it fires and who says so, in one line.
        knobs: Ids of the knobs that would test the advice; none where advisor can change nothing.
        explains: Symptoms that this can be the cause of, the nearest first.
        severity: Of a finding without a ceiling.
        least: Share (0 to 1) from which a ceiling is worth telling.
        timed: Its findings are about time, which other load on the machine would falsify.
        recorded: It reads the operators of the profiler's window.
        correctness: A risk that what is learnt or answered is wrong.
        fatal: A risk that the run ends before it is complete.
        fallback: Is told only where what other rules found explains less than half of it.
        yields: Passes where a cause of kind waste that explains it covers half of it: its advice would be to
            live with that.
        on_traces: What it lacks, and why, where it abstains on a trace made elsewhere; without it the
            reason that ``check`` gives holds for traces as well.
    """

    family: ClassVar[Family]
    kind: ClassVar[Kind]
    threshold: ClassVar[str]
    knobs: ClassVar[tuple[str, ...]] = ()
    explains: ClassVar[tuple[str, ...]] = ()
    severity: ClassVar[Severity] = Severity.MEDIUM
    least: ClassVar[float] = 0.02
    timed: ClassVar[bool] = True
    recorded: ClassVar[bool] = False
    correctness: ClassVar[bool] = False
    fatal: ClassVar[bool] = False
    fallback: ClassVar[bool] = False
    yields: ClassVar[bool] = False
    on_traces: ClassVar[str] = ""

    @property
    def id(self) -> str:
        """The name of its file."""
        return type(self).__module__.rpartition(".")[2]

    def check(self, profile: Profile) -> Finding:
        """Judge one run. Sees nothing but ``profile`` and keeps nothing."""
        raise NotImplementedError

    def not_applicable(self, fact: str, provided_by: str = "") -> Finding:
        """A fact that this rule needs is missing, or cannot exist here.

        Args:
            fact: Its name, in the words of the report: ``device timeline``.
            provided_by: What would provide it: ``needs a GPU``.
        """
        return Finding(
            self.id, self.kind, State.NOT_APPLICABLE, title=": ".join(filter(None, (fact, provided_by)))
        )

    def passed(self, title: str, **evidence: Any) -> Finding:
        """Nothing wrong: one line with the number that says so."""
        return Finding(self.id, self.kind, State.PASSED, title=title, evidence=evidence)

    def opportunity(
        self,
        title: str,
        ceiling: Ceiling,
        *,
        advice: str,
        location: Location | None = None,
        evidence: dict[str, Any] | None = None,
        kind: Kind | None = None,
        knobs: tuple[str, ...] | None = None,
    ) -> Finding:
        """Time that could go. Below ``least`` it is a passed check that keeps its number.

        Args:
            title: Number first, then what: "41 % of each step waits for data".
            ceiling: From ``measured``, ``timeline`` or ``modelled``; its lower end makes the severity.
            advice: Imperative, one change, with the literal code.
            location: Where in the user's program.
            evidence: Numbers behind the title, units in their names.
            kind: Where it is not the rule's own.
            knobs: Where they are fewer than the rule's own.
        """
        finding = Finding(
            self.id,
            kind or self.kind,
            State.OPPORTUNITY,
            None,
            title,
            location,
            ceiling,
            evidence=evidence or {},
            advice=advice,
            knobs=self.knobs if knobs is None else knobs,
        )
        return self.graded(finding, ceiling)

    def graded(self, finding: Finding, ceiling: Ceiling) -> Finding:
        """The finding with this ceiling and the severity of its lower end; below ``least`` it passes."""
        if ceiling.low < self.least:
            sure = f"less than {percent(self.least)} of the {ceiling.of} is sure to go"
            passed = self.passed(f"{finding.title}; {sure}")
            return dataclasses.replace(passed, evidence=finding.evidence, ceiling=ceiling)
        severity = Severity.LOW
        if ceiling.low >= MEDIUM:
            severity = Severity.MEDIUM
        if ceiling.low >= HIGH and ceiling.source != "model":
            severity = Severity.HIGH
        return dataclasses.replace(finding, ceiling=ceiling, severity=severity)

    def diagnostic(
        self,
        title: str,
        *,
        advice: str,
        severity: Severity | None = None,
        location: Location | None = None,
        evidence: dict[str, Any] | None = None,
        kind: Kind | None = None,
        knobs: tuple[str, ...] | None = None,
    ) -> Finding:
        """Something to know or to repair that has no ceiling; ``severity`` is the rule's own unless given."""
        return Finding(
            self.id,
            kind or self.kind,
            State.DIAGNOSTIC,
            severity or self.severity,
            title,
            location,
            evidence=evidence or {},
            advice=advice,
            knobs=self.knobs if knobs is None else knobs,
        )

    def measured(self, share: Share) -> Ceiling:
        """The ceiling that a replay measured."""
        return Ceiling(share.share, share.low, share.high, "replay")

    def timeline(
        self, share: float, error: float = TIMELINE_ERROR, *, of: Literal["step", "run"] = "step"
    ) -> Ceiling:
        """A ceiling summed from measured times; ``error`` is relative.

        Its upper end also allows for the rest of the step becoming faster: by ``WARMER`` at most, and by no
        larger share than the part itself has.
        """
        summed = _around(share, error, "timeline", of)
        rest = 1 - summed.high
        return dataclasses.replace(summed, high=1 - rest * (1 - min(summed.high, WARMER)))

    def modelled(
        self, share: float, error: float = MODEL_ERROR, *, of: Literal["step", "run"] = "step"
    ) -> Ceiling:
        """A ceiling computed from measured facts; ``error`` is relative. At most ``medium``."""
        return _around(share, error, "model", of)


def percent(share: float) -> str:
    """A share as ``41 %``, with one decimal below 10 %: two significant digits."""
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"


def three_digits(value: float) -> str:
    """Three significant digits, and never an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _around(
    share: float, error: float, source: Literal["timeline", "model"], of: Literal["step", "run"]
) -> Ceiling:
    share = min(1.0, max(0.0, share))
    return Ceiling(share, share * (1 - error), min(1.0, share * (1 + error)), source, of)
