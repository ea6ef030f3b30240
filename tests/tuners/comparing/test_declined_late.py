"""A change that declines once it is confirmed, or in the longer run after that, is left out, and told."""

import math
from typing import Any

import pytest
from confirmation_builder import STEP_S, confirmed, some_settings

from advisor.stages.confirming.outcome import Outcome
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.knob import Value
from advisor.tuners.search import ablate
from advisor.tuners.search.removal import Removal
from advisor.tuners.space.configuration import Configuration

BOTH: dict[str, Value] = {"execution": "compile", "amp": "bf16"}
WHY = "it acts in the first epoch only"


def told(monkeypatch: pytest.MonkeyPatch, nominee: dict[str, Value], **declining: Any) -> Outcome:
    estimate = Estimate(math.log(1.4), 0.3, 0.4, 0.99, 4, 1)
    removals = [Removal(name, estimate, needed=True) for name in BOTH]
    monkeypatch.setattr(ablate, "removals", lambda *of, **how: (Configuration(nominee), removals))
    return confirmed(monkeypatch, some_settings("throughput"), STEP_S / 2, nominee=nominee, **declining)


@pytest.mark.parametrize("when", ["refused", "refused_later"])
def test_the_rest_is_confirmed_without_it(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    outcome = told(monkeypatch, BOTH, **{when: {"amp": WHY}})
    assert (outcome.verdict, outcome.config, outcome.reason) == (
        "change",
        Configuration({**BOTH, "amp": "off"}),
        "",
    )
    assert outcome.rejected == {"amp": WHY}
    assert outcome.contributions.keys() == {"execution"}


def test_alone_it_leaves_nothing_to_recommend(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = told(monkeypatch, {"execution": "eager", "amp": "bf16"}, refused={"amp": WHY})
    assert (outcome.verdict, outcome.reason) == ("keep", f"amp: {WHY}")
    assert outcome.decision is None and outcome.config == {"execution": "eager", "amp": "off"}


def test_after_a_second_refusal_the_program_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = told(monkeypatch, BOTH, refused={"amp": WHY}, refused_later={"execution": WHY})
    assert (outcome.verdict, outcome.config) == ("keep", Configuration({"execution": "eager", "amp": "off"}))
    assert outcome.reason == f"execution=compile, run for longer, failed: execution: {WHY}"
    assert outcome.rejected == {"amp": WHY, "execution": WHY}
    assert outcome.decision is None and outcome.longer is None


def test_what_the_program_does_by_itself_may_decline(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = told(monkeypatch, {"execution": "compile", "amp": "off"}, refused={"amp": WHY})
    assert outcome.verdict == "change" and outcome.rejected == {}
