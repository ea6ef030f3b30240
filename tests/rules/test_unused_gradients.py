from typing import Any

from builders import a_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import GradientFacts, Location
from advisor.rules.unused_gradients import UnusedGradients

LINE = Location("gan.py", 34, "main")


def check(share: float, **facts: Any) -> Finding:
    gradients = GradientFacts(1.0, vain_share=share, vain_location=LINE, vain_module="Generator")
    phases = {"forward": 3.0, "backward": 6.0, "optimizer": 1.0}
    return UnusedGradients().check(a_profile(**{"phases_ms": phases, "gradients": gradients, **facts}))


def test_the_graph_is_cut_in_front_of_what_the_loss_does_not_train() -> None:
    finding = check(0.5)
    assert finding.title.startswith("30 % of each step computes gradients that no update uses")
    assert (finding.severity, finding.location) == (Severity.HIGH, LINE)
    assert "`.detach()` what comes out of `Generator`" in finding.advice


def test_a_small_part_passes() -> None:
    assert check(0.05).state is State.PASSED


def test_what_was_not_followed_is_not_judged() -> None:
    assert check(0.5, gradients=None).state is State.NOT_APPLICABLE
