"""Two results side by side, where they can be compared; the document that ``compare --format json`` prints.

Its fields:

``schema_version``, ``advisor_version``
    As in every document of advisor.
``target``, ``machine``
    What both results are about.
``a``, ``b``
    Each result: ``name`` as given, ``made_by`` (``tune`` or ``profile``), ``created``, ``command``; its
    baseline as ``config``, ``step_ms``, ``throughput``, ``peak_bytes`` (``null`` where not measured);
    ``phases_ms`` of a step; ``verdict``, ``speedup`` and ``changes`` (value by knob) of its recommendation,
    which a profile has none of; ``contended``; the number of ``processes`` that its time of a step is from.
``step_ratio``
    Time of a step in B over A (below 1, B is faster), or ``null`` with the reason in ``why_no_ratio``. Its
    interval is that of ``check``: over the processes of each result, so that their bias is in it; a result of
    one process is given the bias that the other's processes show, or else the smallest difference that one
    pair of processes shows. They were not interleaved: a drift of the machine between them is not in it.
``smallest_difference``
    The smallest difference that these two results could have shown, relative; ``null`` without a ratio.
``memory_ratio``
    Peak memory of B over A, each of one process; ``null`` where it was not measured.
``settings``
    Knobs whose baseline setting differs: ``knob``, ``a``, ``b``.
``changes``
    Knobs that at least one of them recommends to change: ``knob``, and ``a`` and ``b``, the value
    recommended or ``null``.
``came``, ``went``
    Findings that fired in B alone and in A alone: ``rule``, ``severity``, ``title``, ``location``, and
    ``elsewhere``, the state of the same rule in the other result (``absent`` if it did not run).
``stayed``
    Rules that fired in both, at the same place.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from advisor.base.errors import UsageError
from advisor.result.comparability import SAME_WORK, machine_differences, refuse, target_differences
from advisor.result.document import (
    Finding,
    Finite,
    Interval,
    Place,
    ProfileData,
    Rate,
    Ratio,
    ResultData,
    Value,
)
from advisor.result.header import Header, Record, Target, header
from advisor.result.stored_step import stored_step
from advisor.result.wording import plain, shown

LEVEL = 0.99  # of the intervals that results hold
FLOOR = 0.02  # relative: what one pair of processes does not show on a quiet machine (measurement.md, 1)
FIRED = ("opportunity", "diagnostic")
CHANGED_CODE = "`advisor check TARGET --against RESULT` compares changed code with an earlier result"

Elsewhere = Literal["opportunity", "diagnostic", "passed", "not_applicable", "error", "absent"]


class Side(Record):
    """One of the two results."""

    name: str
    made_by: Literal["tune", "profile"]
    created: str = ""
    command: list[str] = Field(default_factory=list)
    config: dict[str, Value] = Field(default_factory=dict)
    step_ms: Interval | None = None
    throughput: Rate | None = None
    peak_bytes: int | None = None
    phases_ms: dict[str, Finite] = Field(default_factory=dict)
    verdict: Literal["change", "keep"] | None = None
    speedup: Ratio | None = None
    changes: dict[str, Value] = Field(default_factory=dict)
    contended: bool = False
    processes: int = 1


class Pair(Record):
    """A knob with its value in both results; ``None`` where there is none."""

    knob: str
    a: Value | None = None
    b: Value | None = None


class OneSided(Record):
    """A finding that fired in one result alone."""

    rule: str
    severity: Literal["high", "medium", "low"] | None = None
    title: str = ""
    location: Place | None = None
    elsewhere: Elsewhere = "absent"


class ComparisonData(Header):
    """What ``compare`` found."""

    ascii_only: ClassVar[bool] = True

    target: Target
    machine: dict[str, Any]
    a: Side
    b: Side
    step_ratio: Ratio | None = None
    why_no_ratio: str = ""
    smallest_difference: Finite | None = None
    memory_ratio: Finite | None = None
    settings: list[Pair] = Field(default_factory=list)
    changes: list[Pair] = Field(default_factory=list)
    came: list[OneSided] = Field(default_factory=list)
    went: list[OneSided] = Field(default_factory=list)
    stayed: list[str] = Field(default_factory=list)


@dataclass(frozen=True)
class Given:
    """A result with the name that the user gave."""

    name: str
    result: ResultData | ProfileData


def compare(a: Given, b: Given) -> ComparisonData:
    """Put two results of one program, measured on one machine, side by side.

    Raises:
        UsageError: They cannot be compared; with all reasons.
    """
    refuse_incomparable(a, b)
    first, second = _side(a), _side(b)
    ratio, why = _step_ratio(a, b, first, second)
    fired, later = _fired(a.result.findings), _fired(b.result.findings)
    return ComparisonData(
        **header(),
        target=a.result.target,
        machine=a.result.machine,
        a=first,
        b=second,
        step_ratio=ratio,
        why_no_ratio=why,
        smallest_difference=None if ratio is None else math.sqrt(ratio.high / ratio.low) - 1,
        memory_ratio=second.peak_bytes / first.peak_bytes if first.peak_bytes and second.peak_bytes else None,
        settings=[
            Pair(knob=knob, a=value, b=second.config[knob])
            for knob, value in first.config.items()
            if knob in second.config and second.config[knob] != value
        ],
        changes=[
            Pair(knob=knob, a=first.changes.get(knob), b=second.changes.get(knob))
            for knob in dict.fromkeys((*first.changes, *second.changes))
        ],
        came=[_one_sided(each, a.result.findings) for key, each in later.items() if key not in fired],
        went=[_one_sided(each, b.result.findings) for key, each in fired.items() if key not in later],
        stayed=list(dict.fromkeys(each.rule for key, each in fired.items() if key in later)),
    )


def refuse_incomparable(a: Given, b: Given) -> None:
    """Refuse one result given twice, and results of other machines, programs, arguments or versions of torch.

    Raises:
        UsageError: With all reasons.
    """
    if a.result == b.result:
        raise UsageError(f"the same result twice: {shown(a.name)} and {shown(b.name)}", code="not_comparable")
    unknown = [each.name for each in (a, b) if not each.result.machine.get("fingerprint")]
    if unknown:
        reasons = [f"the machine of {shown(name)} is not known" for name in unknown]
        hint = "a trace does not tell on which machine it was recorded; compare the trace files themselves"
    else:
        reasons = machine_differences(a.result.machine, b.result.machine)
        hint = "measure both on one machine with one torch" if reasons else CHANGED_CODE
        reasons += target_differences(a.result.target, b.result.target)
    refuse(reasons, hint=hint)


def _step_ratio(a: Given, b: Given, one: Side, other: Side) -> tuple[Ratio | None, str]:
    """Time of a step in B over A with its interval, or none and the reason."""
    first, second = a.result.baseline, b.result.baseline
    if first is None or second is None:
        missing = one if first is None else other
        return None, f"{shown(missing.name)} holds no time of a step"
    if one.made_by != other.made_by:
        return None, "tune measures slots of several steps, profile watches single ones"
    if min(first.step_ms.low, second.step_ms.low) <= 0:
        return None, "an interval reaches down to zero"
    works, does = _samples(one), _samples(other)
    if works and does and abs(does / works - 1) > SAME_WORK:
        return None, f"a step works on {plain(works)} samples in A and on {plain(does)} in B"
    steps = [stored_step(each) for each in (first, second)]
    unknown = max(FLOOR, *(_detectable(each.result) for each in (a, b)))
    bias = max(each.bias for each in steps) or math.log1p(unknown)
    half = math.hypot(*(each.alone(bias).half for each in steps))
    centre = steps[1].centre - steps[0].centre
    low, estimate, high = (math.exp(centre + end) for end in (-half, 0.0, half))
    return Ratio(estimate=estimate, low=low, high=high, confidence=LEVEL), ""


def _detectable(result: ResultData | ProfileData) -> float:
    return result.noise.smallest_detectable if isinstance(result, ResultData) else 0.0


def _side(given: Given) -> Side:
    result, baseline = given.result, given.result.baseline
    side = Side(
        name=given.name,
        made_by="profile",
        created=result.created,
        command=list(result.command),
        phases_ms=result.profile.phases_ms,
    )
    if baseline is not None:
        side.config = baseline.config
        side.step_ms, side.throughput = baseline.step_ms, baseline.throughput
        side.peak_bytes = baseline.peak_bytes or None
        side.processes = stored_step(baseline).processes if baseline.step_ms.low > 0 else 1
    if isinstance(result, ResultData):
        found = result.recommendation
        side.made_by, side.contended = "tune", result.noise.contended
        side.verdict, side.speedup = found.verdict, found.speedup
        side.changes = {change.knob: change.to for change in found.changes}
    return side


def _samples(side: Side) -> float | None:
    """Samples that a step works on; ``None`` where they were not counted."""
    if side.throughput is None or side.step_ms is None or side.throughput.unit != "samples/s":
        return None
    return side.throughput.estimate * side.step_ms.estimate / 1000


def _fired(findings: Sequence[Finding]) -> dict[tuple[str, str, int], Finding]:
    """Findings that ask for something, by rule and place, in their order."""
    found = {}
    for each in findings:
        if each.state in FIRED:
            file, line = (each.location.file, each.location.line) if each.location else ("", 0)
            found[(each.rule, file, line)] = each
    return found


def _one_sided(finding: Finding, others: Sequence[Finding]) -> OneSided:
    return OneSided(
        rule=finding.rule,
        severity=finding.severity,
        title=finding.title,
        location=finding.location,
        elsewhere=_state(finding.rule, others),
    )


def _state(rule: str, findings: Sequence[Finding]) -> Elsewhere:
    for each in findings:
        if each.rule == rule:
            return each.state
    return "absent"
