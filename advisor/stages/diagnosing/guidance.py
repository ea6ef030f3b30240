"""What findings mean for a search, and what a search means for the findings."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from advisor.advice.finding import Finding, Outcome, Severity
from advisor.result import attribution, wording
from advisor.result.document import Recommendation, Trial, Untried
from advisor.tuners.strategies import STRATEGIES

DISTURBING = ("interference", "throttled", "thread_collapse")  # marks of trials begin with them
WORTH = 1.0  # a ratio: nothing gained, nothing lost


def priorities(findings: Iterable[Finding]) -> dict[str, float]:
    """For each knob that a finding names: the largest share that could go, by the lower end of its ceiling.

    A finding without a ceiling counts as a small one: it is a reason to try, not a promise. Strategies that
    it names are values of the knob ``strategy``.
    """
    found: dict[str, float] = {}
    for finding in findings:
        if not finding.fired:
            continue
        gain = finding.ceiling.low if finding.ceiling is not None else 0.05
        for knob in finding.knobs:
            name = "strategy" if knob in STRATEGIES else knob
            found[name] = max(gain, found.get(name, 0.0))
    return found


def with_outcomes(
    findings: Sequence[Finding],
    recommendation: Recommendation,
    trials: Sequence[Trial],
    not_tried: Sequence[Untried],
    baseline: Mapping[str, int | str],
    asked: Collection[str] = (),
    option: str = "--knob",
    collapsed: bool = False,
) -> list[Finding]:
    """What came of trying each finding's advice.

    ``confirmed``: a knob that it names is part of the confirmed recommendation. ``harmful``: every value
    tried was slower. ``no_effect``: none was clearly faster; it then matters little. ``not_tested`` with the
    reason otherwise; what was faster in the search alone, and never confirmed, is not counted as tested,
    nor is what was slower while something from outside disturbed it.
    The reason says by which change it was tested, and where that is not the one of the advice.

    Args:
        findings: As the rules left them.
        recommendation: The verdict.
        trials: All trials of the study.
        not_tried: What was left out, and why.
        baseline: The baseline's settings.
        asked: Knobs that the user named, if any were; no others were tried.
        option: How they were named.
        collapsed: Threads collapsed under other load while the unchanged program was measured.
    """
    collapsed = collapsed or any(each.fired and each.rule == "thread_collapse" for each in findings)
    return [
        _with_outcome(
            finding, recommendation, trials, not_tried, baseline,
            attribution.left_out(finding.advice, finding.knobs, asked, option), collapsed,
        ) if finding.fired else finding
        for finding in findings
    ]  # fmt: skip


def _with_outcome(
    finding: Finding,
    recommendation: Recommendation,
    trials: Sequence[Trial],
    not_tried: Sequence[Untried],
    baseline: Mapping[str, int | str],
    left_out: str,
    collapsed: bool,
) -> Finding:
    found = attribution.confirmed_by(finding.advice, finding.knobs, recommendation, trials, baseline)
    if found is not None:
        gain, why = found
        measured = None if gain is None else (gain.estimate, gain.low, gain.high)
        return dataclasses.replace(finding, outcome=Outcome.CONFIRMED, measured=measured, why=why)
    own = set(finding.knobs)
    tried = [trial for trial in trials if (names := attribution.changed(trial, baseline)) and names <= own]
    ratios = [(trial.against_baseline, trial) for trial in tried if trial.against_baseline is not None]
    if not ratios:
        why = _failed(tried, baseline) or _why(finding, not_tried) or left_out or attribution.NOT_REACHED
        return dataclasses.replace(finding, why=why)
    best, trial = max(ratios, key=lambda ratio: ratio[0].estimate)
    tested = set().union(*(attribution.changed(trial, baseline) for _, trial in ratios))
    beside = attribution.beside_advice(finding.advice, finding.knobs, tested, trials, baseline)
    why = f"{', '.join(wording.differences(trial.config, baseline))}: {wording.short_ratio(best)}"
    tested_as = dataclasses.replace(finding, measured=(best.estimate, best.low, best.high), why=why + beside)
    if best.high < WORTH and (disturbed := _disturbed([trial for _, trial in ratios], collapsed)):
        return dataclasses.replace(finding, why=f"{why} while {disturbed}: it could not be told{beside}")
    if best.high < WORTH:
        return dataclasses.replace(tested_as, outcome=Outcome.HARMFUL)
    if best.low <= WORTH or best.estimate < WORTH + 0.01:
        return dataclasses.replace(tested_as, outcome=Outcome.NO_EFFECT, severity=Severity.LOW)
    return dataclasses.replace(finding, why=f"{why} in the search alone, not confirmed{beside}")


def _disturbed(tried: Sequence[Trial], collapsed: bool) -> str:
    """What from outside may have made a trial slow; empty where nothing is known to."""
    if collapsed:
        return "threads collapsed under other load"
    marks = (mark for trial in tried for mark in trial.marks)
    return next((mark.partition(": ")[2] or mark for mark in marks if mark.startswith(DISTURBING)), "")


def _failed(tried: Sequence[Trial], baseline: Mapping[str, int | str]) -> str:
    """Why nothing could be measured of what was tried; empty where nothing was."""
    for trial in tried:
        if trial.state == "failed":
            return f"{', '.join(wording.differences(trial.config, baseline))} failed: {wording.cause(trial)}"
    return ""


def _why(finding: Finding, not_tried: Sequence[Untried]) -> str:
    if not finding.knobs:
        return "the advice is for you to follow: no knob can try it"
    for entry in not_tried:
        a_strategy = entry.knob == "strategy" and STRATEGIES.keys() & set(finding.knobs)
        if entry.knob in finding.knobs or a_strategy:
            value = "" if entry.value is None else f"={entry.value}"
            return f"{entry.knob}{value}: {entry.reason}"
    return ""
