from typing import Any

import pytest
from builders import a_profile

from advisor.advice.finding import Finding, Kind, State
from advisor.profiles.facts.observed import LineCalls, Location, Reordered
from advisor.rules.broadcast_pairs import INSTEAD, BroadcastPairs

LINE = Location("/home/me/net.py", 22, "forward")


def check(reordered: Reordered | None, phase: str = "forward", **facts: Any) -> Finding:
    line = LineCalls(LINE, phase, ("__sub__",), 1, 0.5, 0, 0, 0.0, 1, 1, reordered=reordered, **facts)
    phases = {"forward": 3.0, "backward": 5.0, "other": 2.0}
    return BroadcastPairs().check(a_profile(phases_ms=phases, line_calls=(line,)))


def test_differences_of_all_pairs_are_named_with_what_takes_their_place() -> None:
    finding = check(Reordered("square", 0.8, 1, 4_194_304))
    assert finding.title == (
        "24 % of each step makes all pairs to add them up: squared distances at net.py:22 go through "
        "4,194,304 elements"
    )
    assert "`torch.cdist(a, b).square()`" in finding.advice
    assert (finding.kind, finding.location) == (Kind.WASTE, LINE)


def test_what_records_a_graph_is_paid_in_backward_as_well() -> None:
    ceiling = check(Reordered("norm", 0.8, 3, 4096), graphed=True).ceiling
    assert ceiling is not None and ceiling.share == pytest.approx(0.8 * 0.8)


def test_of_a_loss_beside_the_model_backward_has_its_part_of_both() -> None:
    ceiling = check(Reordered("norm", 0.5, 1, 4096), "other", graphed=True).ceiling
    assert ceiling is not None and ceiling.share == pytest.approx(0.5 * 0.2 + 0.5 * 2 / 5 * 0.5)


@pytest.mark.parametrize("kind", INSTEAD)
def test_each_kind_has_its_own_advice(kind: str) -> None:
    assert INSTEAD[kind][1] in check(Reordered(kind, 0.8, 1, 4096)).advice


def test_few_pairs_other_orders_and_none_pass() -> None:
    assert check(Reordered("square", 0.05, 1, 4096)).state is State.PASSED
    assert check(Reordered("chain", 0.8, 1, 4096, 0.1)).state is State.PASSED
    assert check(None).state is State.PASSED


def test_without_lines_that_a_mode_followed_nothing_is_said() -> None:
    assert BroadcastPairs().check(a_profile()).state is State.NOT_APPLICABLE
