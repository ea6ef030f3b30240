"""What a report shows of findings: rows by state, each with the page of its rule."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.report.next_step import tune_command
from advisor.result import attribution, wording
from advisor.result.conditions import as_json
from advisor.result.document import Finding, Place, ResultData
from advisor.result.wording import shown
from advisor.rules import RULES

JOINED = {"confirmed": " by ", "no_effect": " of "}  # an outcome and what was tested
SEVERITIES = ("high", "medium", "low", "")


@dataclass(frozen=True)
class FindingRow:
    """What one rule said; ``page`` is what the rule is about, ``cause_of`` the symptom it explains."""

    rule: str
    state: str
    kind: str
    severity: str
    title: str
    place: str
    gain: str
    advice: str
    outcome: str
    outcome_word: str
    to_try: str
    severity_rank: int
    evidence: str
    cause_of: str
    knobs: list[str]
    page: str


@dataclass(frozen=True)
class FindingGroups:
    """Findings by state, each list in report order."""

    opportunities: list[FindingRow]
    diagnostics: list[FindingRow]
    passed: list[FindingRow]
    not_applicable: list[FindingRow]
    errors: list[FindingRow]

    def __bool__(self) -> bool:
        return any((self.opportunities, self.diagnostics, self.passed, self.not_applicable, self.errors))


def groups(findings: Sequence[Finding], result: ResultData | None = None) -> FindingGroups:
    """Rows of all findings; of a search with its ``result``.

    What was confirmed to gain is an opportunity, and so is its cause, which stands before it, unless it was
    tested in vain.
    """
    gaining: set[str] = set()
    for finding in reversed(findings):
        causes = finding.explains in gaining and finding.outcome == "not_tested"
        if finding.outcome == "confirmed" or causes:
            gaining.add(finding.rule)
    rows: dict[str, list[FindingRow]] = {}
    for finding in findings:
        gains = finding.state == "diagnostic" and finding.rule in gaining
        rows.setdefault("opportunity" if gains else finding.state, []).append(finding_row(finding, result))
    return FindingGroups(
        opportunities=rows.get("opportunity", []),
        diagnostics=rows.get("diagnostic", []),
        passed=rows.get("passed", []),
        not_applicable=rows.get("not_applicable", []),
        errors=rows.get("error", []),
    )


def told_once(rows: Sequence[FindingRow]) -> list[FindingRow]:
    """Without symptoms of their cause's line and gain that came to the same: all is said with the cause."""
    told: set[tuple[str, ...]] = set()
    kept = []
    for row in rows:
        if (row.rule, row.place, row.gain, row.outcome) not in told:
            kept.append(row)
        if row.place:
            told.add((row.cause_of, row.place, row.gain, row.outcome))
    return kept


def rest_lines(found: FindingGroups, *, everything: bool, in_python: bool) -> list[str]:
    """What rules said that found nothing, as text: how many there are, or each of them.

    Args:
        found: All findings.
        everything: List them, as ``--all`` asks for.
        in_python: There is no command line to ask on.
    """
    passed, abstained = found.passed, found.not_applicable
    if not passed and not abstained:
        return []
    if not everything:
        where = "`result.findings`" if in_python else "`--all`"
        return [
            "",
            f"Rules that passed: {len(passed)}; that do not apply: {len(abstained)}; {where} lists them.",
        ]
    lines = (
        ["", f"Passed ({len(passed)}):", *(f"  {row.rule}: {row.title}" for row in passed)] if passed else []
    )
    if abstained:
        lines += ["", f"Not applicable ({len(abstained)}): {', '.join(row.rule for row in abstained)}"]
    return lines


def finding_row(finding: Finding, result: ResultData | None = None) -> FindingRow:
    """One finding as text; of a search with its ``result``."""
    return FindingRow(
        rule=shown(finding.rule) or "(unnamed)",
        state=finding.state.replace("_", " "),
        kind=finding.kind,
        severity=finding.severity or "",
        title=shown(finding.title, 300),
        place=place(finding.location),
        gain=gain(finding),
        advice=shown(finding.advice, 1000),
        outcome=outcome(finding, result),
        outcome_word=finding.outcome,
        to_try=to_try(finding, result),
        severity_rank=SEVERITIES.index(finding.severity or ""),
        evidence=", ".join(f"{shown(name, 80)} {as_json(value)}" for name, value in finding.evidence.items()),
        cause_of=shown(finding.explains or ""),
        knobs=[shown(knob, 80) for knob in finding.knobs],
        page=rule_page(finding.rule),
    )


def gain(finding: Finding) -> str:
    """What could be gained at most, or what was: measured where it was tested."""
    if finding.measured:
        return f"measured: {wording.short_ratio(finding.measured)}"
    ceiling = finding.ceiling
    if ceiling is None or finding.state not in ("opportunity", "diagnostic"):
        return ""
    source = {
        "replay": "measured: replay",
        "timeline": "measured times",
        "model": "model, not measured",
    }[ceiling.source]
    return (
        f"at most {wording.percent(ceiling.share)} of the {ceiling.of} could be gained "
        f"({wording.percent(ceiling.low)} to {wording.percent(ceiling.high)}; {source}){_doubt(finding)}"
    )


def _doubt(finding: Finding) -> str:
    """What makes the times behind a ceiling doubtful, as the end of its sentence."""
    said = ""
    disturbed = finding.evidence.get("disturbed_by")
    if isinstance(disturbed, list) and disturbed:
        said += f"; disturbed by {shown(', '.join(map(str, disturbed))).replace('_', ' ')}"
    few = finding.evidence.get("few_steps")
    if few:
        said += f"; wide, from {few} recorded step{'' if few == 1 else 's'}"
    if finding.evidence.get("every_step_flagged"):
        said += "; no step was without an evaluation, a save, a new epoch or a compilation"
    return said


def outcome(finding: Finding, result: ResultData | None = None) -> str:
    """``confirmed by amp=bf16: 1.31x (1.24 to 1.38)``, ``not tested: ...``: with what was tested."""
    word = finding.outcome.replace("_", " ")
    why = finding.why if result is None else attribution.why(finding, result)
    if not why:
        return word
    return f"{word}{JOINED.get(finding.outcome, ': ') if '=' in why else ': '}{shown(why, 300)}"


def to_try(finding: Finding, result: ResultData | None) -> str:
    """The command that tries an advice which the user's own ``--knob`` left out; else empty."""
    if result is None or result.target.kind not in ("script", "workload"):
        return ""
    options = (
        attribution.to_try(finding) if attribution.why(finding, result).startswith("--knob left ") else []
    )
    return tune_command(result, options) if options else ""


def place(location: Place | None) -> str:
    """``train.py:42``, or nothing."""
    return f"{shown(location.file)}:{location.line}" if location else ""


def rule_page(name: str) -> str:
    """What a rule is about, from its docstring; empty for one of another version."""
    rule = RULES.get(name)
    return "" if rule is None else inspect.getdoc(type(rule)) or ""
