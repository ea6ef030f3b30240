"""Every rule over one profile, in the order of the report."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from advisor.advice.finding import Ceiling, Finding, Kind, Severity, State
from advisor.advice.rule import Family, Rule, percent, three_digits
from advisor.profiles.derived.disturbance import disturbances
from advisor.profiles.derived.eligibility import CAPTURING, clean_step_ms
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import DeviceTime

CLEAN_STEPS = 10  # fewer say too little about time
TRACED_STEPS = 3  # of a trace made elsewhere; with fewer the interval is wide
ONE_STEP = 0.5
"""Relative half width of an interval from one step, for how steps differ. Chosen, not measured: steps of one
recorded run lie within 5 % of their mean (``benchmarks/gpu_traces.py``), but a first step may not."""

COMPUTE_BOUND = 0.9  # of the step, from where a run without other findings is compute-bound (TraceML)
EXPLAINED = 0.5  # of what a fallback found: then the known cause is told alone
WORTH_NAMING = 0.05  # of the device's time, from where a part of it is named (TensorBoard plug-in)
TOO_SMALL = 0.25  # of a symptom: a cause below that is none of it; set by experiment
UNSEEN = "the recorded machine has a device, and no event of it was read"
SEVERITIES = (Severity.HIGH, Severity.MEDIUM, Severity.LOW, None)
STATES = (State.OPPORTUNITY, State.DIAGNOSTIC, State.PASSED, State.NOT_APPLICABLE, State.ERROR)


def advise(profile: Profile, rules: Mapping[str, Rule]) -> list[Finding]:
    """Run every rule; a rule that fails costs its own finding, never the run.

    Returns:
        All findings in report order: severity, kind (risk of wrong results or of an early end, waste,
        headroom, other risk), lower end of the ceiling; causes before the symptom that they explain, if they
        are large enough, and such symptoms behind all else of their severity; passed, not applicable, errors.
    """
    disturbed = disturbances(profile)
    findings = {name: _examine(rule, profile, disturbed) for name, rule in rules.items()}
    for name, rule in rules.items():
        if rule.fallback:
            findings[name] = _unless_explained(rule, findings[name], findings.values())
    for name, rule in rules.items():
        if rule.yields:
            findings[name] = _unless_caused(rule, findings[name], findings, rules)
    explained = [_explaining(finding, rules[name], findings) for name, finding in findings.items()]
    return in_order(explained, rules)


def in_order(findings: Iterable[Finding], rules: Mapping[str, Rule]) -> list[Finding]:
    """Report order; see ``advise``. A confirmed gain stands in the ceiling's place."""
    ordered = sorted(findings, key=lambda finding: _rank(finding, rules.get(finding.rule)))
    causes = [finding for finding in ordered if finding.fired and finding.explains]
    for _ in causes:  # a symptom that is itself a cause moves away from its own: once for each is enough
        for cause in causes:
            places = {finding.rule: place for place, finding in enumerate(ordered) if finding.fired}
            explained = rules[cause.rule].explains if cause.rule in rules else (cause.explains,)
            symptoms = [
                places[name] for name in explained if name in places and _covers(cause, ordered[places[name]])
            ]
            if symptoms and places[cause.rule] > min(symptoms):
                ordered.pop(places[cause.rule])
                ordered.insert(min(symptoms), cause)
    return _symptoms_behind(ordered, rules, causes)


def _symptoms_behind(
    ordered: list[Finding], rules: Mapping[str, Rule], causes: Iterable[Finding]
) -> list[Finding]:
    """A symptom of which the cause is told, and no cause itself, stands behind all else of its severity."""
    told = {
        symptom.rule
        for cause in causes
        for symptom in ordered
        if symptom.fired and not symptom.explains and _covers(cause, symptom, EXPLAINED)
        and cause.rule in rules and symptom.rule in rules[cause.rule].explains
    }  # fmt: skip
    for symptom in [each for each in reversed(ordered) if each.rule in told]:
        others = [
            place for place, each in enumerate(ordered)
            if each.fired and each.rule not in told
            and SEVERITIES.index(each.severity) <= SEVERITIES.index(symptom.severity)
        ]  # fmt: skip
        if others and max(others) > ordered.index(symptom):
            ordered.remove(symptom)
            ordered.insert(max(others), symptom)
    return ordered


def summary(findings: Iterable[Finding], profile: Profile) -> str:
    """One sentence for the top: what was found most, or that the run computes all the time.

    Where there is a device it is the device that computes, whatever the host does.
    """
    fired = [finding for finding in findings if finding.fired and finding.severity is not Severity.LOW]
    first = next((f for f in fired if f.kind is not Kind.HEADROOM), None)
    if first is not None:
        return first.title
    if profile.window is not None and profile.window.device is not None and profile.window.device.captures:
        return CAPTURING
    share, device, step_ms = _computing(profile), _device_time(profile), clean_step_ms(profile)
    if device is not None and device.earlier_ms:
        step_ms, device = (step_ms or 0.0) - device.earlier_ms, device.recorded
    if device is None and _device_unseen(profile):
        return f"{percent(share)} of the host's step computes or launches; no event of a device was recorded"
    if share < COMPUTE_BOUND and device is not None:
        return _spent_otherwise(device)
    headroom = next((f for f in fired if f.kind is Kind.HEADROOM and f.ceiling is not None), None)
    if share < COMPUTE_BOUND:
        nothing = "Nothing found that wastes more than a few percent"
        return nothing if headroom is None else f"{nothing}; {headroom.title}"
    if device is not None and step_ms and device.total_ms < COMPUTE_BOUND * step_ms:
        device_ms, host_ms = three_digits(device.total_ms), three_digits(step_ms)
        works = f"the device works for {device_ms} ms of the host's {host_ms} ms"
        return f"{works}, and computes {percent(device.share('computing'))} of that"
    computes = f"{percent(share)} of the step computes"
    return f"{computes}: the run is compute-bound" if headroom is None else f"{computes}; {headroom.title}"


def _spent_otherwise(device: DeviceTime) -> str:
    """What the device does with a step, where no rule names a part of it: all that is worth a rule."""
    others = {
        "copies alone": device.share("exposed_copies"),
        "exchanges alone": device.share("exposed_communication"),
        "stands still": device.share("idle"),
    }
    worth = [f"{name} for {percent(share)}" for name, share in others.items() if share >= WORTH_NAMING]
    return ", ".join([f"the device computes for {percent(device.share('computing'))} of the step", *worth])


def _computing(profile: Profile) -> float:
    """Share of the step that computes: on the device where one was recorded, else on the host."""
    device = None if profile.window is None else profile.window.device
    if device is not None:
        return device.busy_share if device.time is None else device.time.recorded.share("computing")
    return 0.0 if profile.phases is None else profile.phases.share("forward", "backward", "optimizer")


def _device_time(profile: Profile) -> DeviceTime | None:
    """What the device did, where that was recorded."""
    device = None if profile.window is None else profile.window.device
    return None if device is None else device.time


def _device_unseen(profile: Profile) -> bool:
    """Whether the machine of a trace has a device of which the trace holds nothing that is read.

    Times of its operators are then those of calling them, which say nothing of what they take.
    """
    return profile.target_kind == "trace" and profile.machine.cuda and not profile.device.startswith("cuda")


def _examine(rule: Rule, profile: Profile, disturbed: tuple[str, ...]) -> Finding:
    try:
        finding = rule.check(profile)
    except Exception as error:  # the one broad except: the rule is at fault, not the run
        return Finding(rule.id, rule.kind, State.ERROR, title=f"{type(error).__name__}: {error}")
    traced = profile.target_kind == "trace"
    if traced and finding.state is State.NOT_APPLICABLE and rule.on_traces:
        return rule.not_applicable(rule.on_traces)
    if (rule.recorded or rule.family is Family.OPTIMIZER) and _device_unseen(profile):
        return rule.not_applicable("device timeline", UNSEEN)
    if not finding.fired:
        return finding
    ceiling = finding.ceiling
    if ceiling is not None and not all(map(math.isfinite, (ceiling.share, ceiling.low, ceiling.high))):
        return Finding(rule.id, rule.kind, State.ERROR, title=f"its ceiling is no number: {ceiling.share}")
    reason = _abstains(rule, finding, profile)
    if reason is not None:
        return rule.not_applicable(*reason)
    steps = profile.phases.steps if profile.phases is not None else 0
    if traced and rule.timed and ceiling is not None and 0 < steps < TRACED_STEPS:
        finding = _with_evidence(rule.graded(finding, _of_few_steps(ceiling, steps)), few_steps=steps)
    if rule.timed and ceiling is not None and profile.phases is not None and profile.phases.all_flagged:
        finding = _with_evidence(finding, every_step_flagged=True)
    if disturbed and rule.timed and finding.state is State.OPPORTUNITY:
        severity = Severity.MEDIUM if finding.severity is Severity.HIGH else finding.severity
        finding = dataclasses.replace(finding, state=State.DIAGNOSTIC, severity=severity)
        finding = _with_evidence(finding, disturbed_by=list(disturbed))
    return finding


def _of_few_steps(ceiling: Ceiling, steps: int) -> Ceiling:
    """The ceiling with an interval as wide as so few steps make it."""
    error = ONE_STEP / math.sqrt(steps)
    low, high = ceiling.share * (1 - error), ceiling.share * (1 + error)
    return dataclasses.replace(ceiling, low=min(ceiling.low, low), high=min(1.0, max(ceiling.high, high)))


def _with_evidence(finding: Finding, **evidence: Any) -> Finding:
    return dataclasses.replace(finding, evidence={**finding.evidence, **evidence})


def _abstains(rule: Rule, finding: Finding, profile: Profile) -> tuple[str, str] | None:
    phases, window = profile.phases, profile.window
    of_step = finding.ceiling is not None and finding.ceiling.of == "step"
    few = phases is not None and 0 < phases.steps < CLEAN_STEPS and profile.target_kind != "trace"
    if rule.timed and of_step and few and phases is not None:
        return f"{phases.steps} clean steps", f"needs {CLEAN_STEPS}"
    if rule.recorded and window is not None and finding.ceiling is not None:
        claimed = finding.ceiling.share
        if finding.ceiling.source != "replay" and window.residual > claimed / 2:
            return (
                f"the profiler's own cost leaves {percent(window.residual)} of the step unclear",
                f"that is more than half of the {percent(claimed)} in question",
            )
    return None


def _explaining(finding: Finding, rule: Rule, findings: Mapping[str, Finding]) -> Finding:
    if not finding.fired:
        return finding
    symptoms = (findings[name] for name in rule.explains if name in findings and findings[name].fired)
    symptom = next((each.rule for each in symptoms if _covers(finding, each)), None)
    return dataclasses.replace(finding, explains=symptom)


def _covers(cause: Finding, symptom: Finding, least: float = TOO_SMALL) -> bool:
    """Whether the cause is large enough for the symptom: a pause of 2 % does not explain half of a step.

    Where either has no share, or one is of a step and the other of the whole run, their severities tell.
    """
    if cause.ceiling is None or symptom.ceiling is None or cause.ceiling.of != symptom.ceiling.of:
        return cause.severity is not Severity.LOW or symptom.severity is Severity.LOW
    return cause.ceiling.share >= least * symptom.ceiling.share


def _unless_explained(rule: Rule, finding: Finding, findings: Iterable[Finding]) -> Finding:
    """The finding of a fallback, or that it passed, where a known cause covers half of it or its place."""
    if not finding.fired or finding.ceiling is None:
        return finding
    for other in findings:
        if not other.fired or other.rule == finding.rule or other.kind is not Kind.WASTE:
            continue
        covers = other.ceiling is not None and other.ceiling.share >= EXPLAINED * finding.ceiling.share
        here = other.location is not None and other.location == finding.location
        if covers or here:
            return rule.passed(f"{finding.title}; `{other.rule}` says why", **finding.evidence)
    return finding


def _unless_caused(
    rule: Rule, symptom: Finding, findings: Mapping[str, Finding], rules: Mapping[str, Rule]
) -> Finding:
    """The finding of a rule that yields, or that it passed, where a waste that explains it is told."""
    if not symptom.fired:
        return symptom
    causes = [
        finding for name, finding in findings.items()
        if finding.fired and finding.kind is Kind.WASTE and rule.id in rules[name].explains
        and _covers(finding, symptom, EXPLAINED)
    ]  # fmt: skip
    if not causes:
        return symptom
    cause = min(causes, key=lambda finding: _rank(finding, rules[finding.rule]))
    return rule.passed(f"{symptom.title}; `{cause.rule}` says why", **symptom.evidence)


def _rank(finding: Finding, rule: Rule | None) -> tuple[int, int, int, float, str]:
    grave = rule is not None and (rule.correctness or rule.fatal)
    kinds = {Kind.WASTE: 1, Kind.HEADROOM: 2, Kind.RISK: 0 if grave else 3}
    told = STATES.index(finding.state) if not finding.fired else 0
    gain = finding.ceiling.low if finding.ceiling is not None else 0.0
    if finding.measured is not None:
        gain = 1 - 1 / max(finding.measured[1], 1e-9)
    return told, SEVERITIES.index(finding.severity), kinds[finding.kind], -gain, finding.rule
