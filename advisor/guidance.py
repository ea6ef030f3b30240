"""What findings mean for a search, and what a search means for the findings."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from advisor import wording
from advisor.finding import Finding, Outcome, Severity
from advisor.result import Adopted, Interval, Recommendation, Trial, Untried
from advisor.tuners.knobs import KNOBS
from advisor.tuners.strategies import STRATEGIES

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
) -> list[Finding]:
    """What came of trying each finding's advice.

    ``confirmed``: a knob that it names is part of the confirmed recommendation. ``harmful``: every value
    tried was slower. ``no_effect``: none was clearly faster; it then matters little. ``not_tested`` with the
    reason otherwise; what was faster in the search alone, and never confirmed, is not counted as tested.

    Args:
        findings: As the rules left them.
        recommendation: The verdict.
        trials: All trials of the study.
        not_tried: What was left out, and why.
        baseline: The baseline's settings.
    """
    return [
        _with_outcome(finding, recommendation, trials, not_tried, baseline) if finding.fired else finding
        for finding in findings
    ]


def _with_outcome(
    finding: Finding,
    recommendation: Recommendation,
    trials: Sequence[Trial],
    not_tried: Sequence[Untried],
    baseline: Mapping[str, int | str],
) -> Finding:
    adopted = [change for change in recommendation.changes if _name(change.knob, change.to) in finding.knobs]
    if adopted:
        measured = _contribution(adopted, recommendation)
        why = "" if measured else "part of the recommendation; its own share was not measured"
        return dataclasses.replace(finding, outcome=Outcome.CONFIRMED, measured=measured, why=why)
    tried = [
        trial for trial in trials if (changed := _changed(trial, baseline)) and changed <= set(finding.knobs)
    ]
    ratios = [trial.against_baseline for trial in tried if trial.against_baseline is not None]
    if not ratios:
        return dataclasses.replace(finding, why=_failed(tried, baseline) or _why(finding, not_tried))
    best = max(ratios, key=lambda ratio: ratio.estimate)
    measured = (best.estimate, best.low, best.high)
    if best.high < WORTH:
        return dataclasses.replace(finding, outcome=Outcome.HARMFUL, measured=measured)
    if best.low <= WORTH or best.estimate < WORTH + 0.01:
        return dataclasses.replace(
            finding, outcome=Outcome.NO_EFFECT, measured=measured, severity=Severity.LOW
        )
    said = wording.short_ratio(best)
    return dataclasses.replace(finding, why=f"{said} in the search alone, not confirmed")


def _changed(trial: Trial, baseline: Mapping[str, int | str]) -> set[str]:
    """What a trial changed: of knobs that only follow others nothing, and a strategy by its name."""
    changed = {name: value for name, value in trial.config.items() if value != baseline.get(name)}
    return {
        _name(name, value) for name, value in changed.items()
        if name not in KNOBS or KNOBS[name].follows not in changed
    }  # fmt: skip


def _name(knob: str, value: int | str) -> str:
    """How rules name it: a strategy by itself."""
    return str(value) if knob == "strategy" else knob


def _contribution(
    adopted: Sequence[Adopted], recommendation: Recommendation
) -> tuple[float, float, float] | None:
    """The largest contribution of the changes, or the whole gain where there is one change only."""
    known: list[Interval] = [change.contribution for change in adopted if change.contribution is not None]
    if len(recommendation.changes) == 1:
        known = [recommendation.speedup]
    best = max(known, key=lambda interval: interval.estimate, default=None)
    return None if best is None else (best.estimate, best.low, best.high)


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
    return "the search did not come to it"
