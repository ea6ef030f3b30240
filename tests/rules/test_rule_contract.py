"""What holds for every rule."""

import inspect
import subprocess
import sys

import pytest
from builders import a_gpu_profile, a_loader, a_machine, a_profile, a_rich_profile

from advisor.advice.advise import advise
from advisor.advice.finding import State
from advisor.advice.rule import Rule
from advisor.profiles.facts.profile import Profile
from advisor.rules import RULES
from advisor.tuners.knobs import KNOBS
from advisor.tuners.strategies import STRATEGIES


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_abstains_from_a_profile_that_holds_nothing_and_names_what_is_missing(rule: Rule) -> None:
    finding = rule.check(Profile(a_machine()))
    assert finding.state is State.NOT_APPLICABLE
    assert finding.title


@pytest.mark.parametrize("profile", [a_rich_profile(), a_gpu_profile()], ids=["cpu", "gpu"])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_gives_the_same_finding_twice_and_never_fails(rule: Rule, profile: Profile) -> None:
    first = rule.check(profile)
    assert first == rule.check(profile)
    assert first.rule == rule.id and first.title


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_explains_itself(rule: Rule) -> None:
    page = inspect.cleandoc(type(rule).__doc__ or "")
    assert len(page.split(".")) > 2, "the page says what happens, why it costs and what to do"
    assert rule.threshold and rule.family and rule.kind
    assert RULES[rule.id] is rule


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_names_knobs_and_symptoms_that_exist(rule: Rule) -> None:
    assert set(rule.knobs) <= KNOBS.keys() | STRATEGIES.keys()
    assert set(rule.explains) <= RULES.keys()


def test_no_name_is_both_a_knobs_and_a_strategys() -> None:
    assert not STRATEGIES.keys() & KNOBS.keys()


def test_a_rule_that_fails_costs_its_own_finding() -> None:
    class Broken(Rule):
        kind = RULES["input_bound"].kind

        def check(self, profile: Profile) -> "object":  # type: ignore[override]  # it never returns
            raise KeyError("lost")

    findings = advise(a_rich_profile(), {**RULES, "broken": Broken()})
    assert [f.title for f in findings if f.state is State.ERROR] == ["KeyError: 'lost'"]
    assert len(findings) == len(RULES) + 1


def test_rules_do_not_load_torch() -> None:
    code = "import sys, advisor.rules; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_healthy_profile_has_no_waste_or_risk() -> None:
    profile = a_profile(
        phases_ms={"input_wait": 0.1, "forward": 3.9, "backward": 5.0, "optimizer": 0.5, "other": 0.2},
        loader=a_loader(item_ms=0.01, cpu_share=1.0),
        run=a_rich_profile().run,
        roots=a_rich_profile().roots,
    )
    bad = [f for f in advise(profile, RULES) if f.fired and f.kind.value != "headroom"]
    assert bad == []
