"""What rules say of every recorded program fits the evidence that they have."""

import re
from functools import cache
from pathlib import Path

import pytest
from programs import CLEAN, FAULTS
from recordings import recorded_profile, recording_of

from advisor.advice.advise import advise
from advisor.advice.finding import Finding, Severity, State
from advisor.advice.rule import Family
from advisor.profiles.facts.profile import Profile
from advisor.rules import RULES
from advisor.rules.recompiles import sizes_change

PROGRAMS = [path for path in (*FAULTS, *CLEAN) if recording_of(path).exists()]
PARTS = {Family.OPTIMIZER: ("optimizer",), Family.INPUT: ("input_wait", "transfer")}
"""Parts of a step that advice of a family can shorten."""
OTHER_PARTS = {
    "excess_padding": ("forward", "backward", "optimizer"),
    "zeroed_gradients": ("other", "backward"),
    "one_by_one": ("forward",),
    "preprocessing_bound": ("other", "input_wait", "transfer"),
}

SYMPTOMS = ("launch_bound", "unattributed_time", "unstable_steps", "hot_line")
LARGE = 0.2  # of the step: not passed in words that say it is lost
LOST = re.compile(r"^([\d.]+) % of (each|the) step (waits|goes|draws|is in no known|updates|computes again)")
ROUNDING = 0.02  # of the step: what a replay may find beside the part


@cache
def judged(path: Path) -> tuple[Profile, list[Finding]]:
    profile = recorded_profile(path, recording_of(path).read_text())
    return profile, advise(profile, RULES)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_part_is_as_large_as_the_ceiling_of_what_changes_it(path: Path) -> None:
    profile, findings = judged(path)
    for finding in findings:
        parts = OTHER_PARTS.get(finding.rule, PARTS.get(RULES[finding.rule].family))
        if not finding.fired or finding.ceiling is None or parts is None or finding.ceiling.of != "step":
            continue
        assert profile.phases is not None
        assert finding.ceiling.low <= profile.phases.share(*parts) + ROUNDING, finding.title


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_advice_is_about_what_the_program_has(path: Path) -> None:
    profile, findings = judged(path)
    assert profile.phases is not None
    wrapped = any(root.parallel is not None for root in profile.roots)
    for finding in (each for each in findings if each.fired):
        said = f"{finding.rule}: {finding.advice}"
        if "fused=True" in finding.advice:
            assert profile.phases.share("optimizer") >= 0.05, said
        if "bucket" in finding.advice:
            assert wrapped, said
        if "dynamic" in finding.advice and profile.compile is not None:
            assert sizes_change(profile.compile), said


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_check_that_passed_does_not_say_that_much_is_lost(path: Path) -> None:
    for finding in judged(path)[1]:
        lost = LOST.match(finding.title)
        if finding.state is State.PASSED and lost and float(lost[1]) >= 100 * LARGE:
            assert re.search(r"[;:]|while", finding.title), f"{finding.rule} passed: {finding.title}"


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_no_symptom_stands_before_a_cause_that_explains_it(path: Path) -> None:
    told = [finding for finding in judged(path)[1] if finding.fired]
    for place, finding in enumerate(told):
        causes = [
            each.rule
            for each in told[place + 1 :]
            if finding.rule in RULES[each.rule].explains and each.severity is not Severity.LOW
        ]
        assert finding.rule not in SYMPTOMS or not causes, (finding.rule, causes)


def test_every_symptom_is_explained_by_something() -> None:
    explained = {name for rule in RULES.values() for name in rule.explains}
    assert {name for name in SYMPTOMS if not RULES[name].fallback} <= explained
