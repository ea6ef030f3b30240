from typing import Any

import pytest
from builders import a_profile, a_rich_profile, an_optimizer

from advisor.advice.advise import advise
from advisor.advice.finding import Finding, Kind, Severity, State
from advisor.profiles.facts.observed import Denormals
from advisor.rules import RULES
from advisor.rules.denormal_numbers import DenormalNumbers


def some(**facts: Any) -> Denormals:
    return Denormals(**{
        "name": "2.weight", "share": 0.6, "kind": "parameter", "tensors_share": 0.9, "slowdown": 20.0,
        "update_slowdown": 20.0, **facts
    })  # fmt: skip


def check(found: Denormals | None, **facts: Any) -> Finding:
    phases = {"forward": 3.0, "backward": 4.0, "optimizer": 2.0}
    run = a_rich_profile().run
    return DenormalNumbers().check(a_profile(phases_ms=phases, run=run, denormals=found, **facts))


def test_the_tensor_is_named_with_what_it_costs() -> None:
    finding = check(some())
    assert finding.title == "60 % of `2.weight` is denormal: a product with it is 20.0 times as slow"
    assert (finding.kind, finding.severity, finding.knobs) == (
        Kind.WASTE,
        Severity.MEDIUM,
        ("flush_denormal",),
    )
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.9 * 0.9 * 0.95)
    assert "set_flush_denormal(True)" in finding.advice


def test_of_momenta_only_the_update_is_slow() -> None:
    ceiling = check(some(kind="state")).ceiling
    assert ceiling is not None and ceiling.share == pytest.approx(0.2 * 0.9 * 0.95)


def test_a_weight_of_which_most_does_nothing_is_told_on_a_processor_that_does_not_mind() -> None:
    finding = check(some(slowdown=1.1, update_slowdown=1.0))
    assert (finding.state, finding.kind, finding.severity) == (State.DIAGNOSTIC, Kind.RISK, Severity.LOW)
    assert finding.title == (
        "60 % of `2.weight` is denormal: those weights add nothing, and cost nothing here: "
        "a product with it is 1.1 times as slow"
    )
    assert finding.ceiling is None and "set_flush_denormal(True)" in finding.advice


@pytest.mark.parametrize("facts", [{"share": 0.05}, {"kind": "state"}, {"kind": "gradient"}])
def test_a_processor_that_does_not_mind_passes_elsewhere(facts: dict[str, Any]) -> None:
    finding = check(some(slowdown=1.1, update_slowdown=1.0, **facts))
    assert finding.state is State.PASSED and finding.title.endswith("a product with it is 1.1 times as slow")


def test_a_processor_that_minds_them_in_updates_alone_is_told_so() -> None:
    finding = check(some(slowdown=1.0, update_slowdown=4.0))
    assert finding.title == "60 % of `2.weight` is denormal: an update with it is 4.0 times as slow"
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(2 / 10 * 0.9 * 0.75)


def test_a_few_or_none_pass() -> None:
    assert check(None).state is State.PASSED
    assert check(some(share=0.001)).state is State.PASSED


def test_on_a_gpu_there_is_nothing_to_gain() -> None:
    assert check(some(), device="cuda:0").state is State.NOT_APPLICABLE


def test_it_stands_before_the_slow_update_that_it_explains() -> None:
    profile = a_profile(
        phases_ms={"forward": 1.0, "backward": 2.0, "optimizer": 6.0},
        run=a_rich_profile().run, denormals=some(), optimizers=(an_optimizer(),),
    )  # fmt: skip
    told = [finding.rule for finding in advise(profile, RULES) if finding.fired]
    assert told[0] == "denormal_numbers" and "optimizer_bound" in told
