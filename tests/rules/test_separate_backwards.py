from typing import Any

from builders import a_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import GradientFacts, Location
from advisor.rules.separate_backwards import SeparateBackwards

LINE = Location("train.py", 40, "main")


def check(share: float, **facts: Any) -> Finding:
    gradients = GradientFacts(6.0, again=5.0, again_share=share, again_location=LINE)
    phases = {"forward": 3.0, "backward": 6.0, "optimizer": 1.0}
    return SeparateBackwards().check(a_profile(**{"phases_ms": phases, "gradients": gradients, **facts}))


def test_losses_that_share_a_graph_are_to_be_added() -> None:
    finding = check(0.8)
    assert finding.title == (
        "48 % of each step goes backward through what was gone through: 6 backwards before each update share "
        "a graph"
    )
    assert (finding.severity, finding.location) == (Severity.HIGH, LINE)
    assert "sum(losses).backward()" in finding.advice


def test_a_small_shared_part_passes() -> None:
    assert check(0.05).state is State.PASSED


def test_what_was_not_followed_is_not_judged() -> None:
    assert check(0.8, gradients=None).state is State.NOT_APPLICABLE
