from typing import Any

import pytest
from builders import a_profile

from advisor.advice.finding import Finding, Kind, State
from advisor.profiles.facts.observed import LineCalls, Location, Reordered
from advisor.rules.contraction_order import ContractionOrder

LINE = Location("/home/me/net.py", 22, "forward")


def check(reordered: Reordered | None, **facts: Any) -> Finding:
    line = LineCalls(LINE, "forward", ("matmul",), 1, 0.5, 0, 0, 0.0, 1, 1, reordered=reordered, **facts)
    phases = {"forward": 3.0, "backward": 5.0, "other": 2.0}
    return ContractionOrder().check(a_profile(phases_ms=phases, line_calls=(line,)))


def test_factors_multiplied_first_are_named_with_the_order_that_is_cheaper() -> None:
    finding = check(Reordered("chain", 0.8, 2, 1_048_576, 0.031))
    assert finding.title == (
        "24 % of each step goes into the order of products: at net.py:22 one makes 1,048,576 elements in "
        "between, where another has 3.1 % of the work"
    )
    assert "`(x @ a) @ b` in place of `x @ (a @ b)`" in finding.advice
    assert (finding.kind, finding.location) == (Kind.WASTE, LINE)


def test_what_records_a_graph_is_paid_in_backward_as_well() -> None:
    ceiling = check(Reordered("chain", 0.8, 1, 4096, 0.1), graphed=True).ceiling
    assert ceiling is not None and ceiling.share == pytest.approx(0.8 * 0.8)


def test_an_einsum_of_several_is_split_or_ordered_by_the_package() -> None:
    assert "install `opt-einsum`" in check(Reordered("einsum", 0.8, 1, 4096, 0.1)).advice


def test_what_spares_little_pairs_and_none_pass() -> None:
    assert check(Reordered("chain", 0.05, 1, 4096, 0.1)).state is State.PASSED
    assert check(Reordered("square", 0.8, 1, 4096)).state is State.PASSED
    assert check(None).state is State.PASSED


def test_without_lines_that_a_mode_followed_nothing_is_said() -> None:
    assert ContractionOrder().check(a_profile()).state is State.NOT_APPLICABLE
