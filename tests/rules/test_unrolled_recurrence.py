from dataclasses import replace
from typing import Any

import pytest
from builders import a_profile

from advisor.advice.finding import Finding, Kind, State
from advisor.profiles.facts.observed import LineCalls, Location
from advisor.rules.unrolled_recurrence import UnrolledRecurrence


def a_line(number: int, *functions: str, **facts: Any) -> LineCalls:
    values = {"calls": 120, "turns": 60, "chain": 60, "weights": 2, "share": 0.2, "graphed": True, **facts}
    return LineCalls(
        Location("train.py", number, "forward"), "forward", functions, repeated=0, repeated_across=0,
        repeated_share=0.0, **values,
    )  # fmt: skip


CUT = a_line(8, "cat", "__getitem__", weights=0, share=0.3)
KEEP = a_line(9, "linear", "sigmoid")
NEW = a_line(10, "mul", "linear", "tanh", turns=120, calls=240, share=0.3)
LOOP = (CUT, KEEP, NEW)


def check(*lines: LineCalls) -> Finding:
    return UnrolledRecurrence().check(a_profile(line_calls=lines, phases_ms={"forward": 4, "backward": 6}))


def test_gates_written_out_are_told_with_their_line_and_the_call_for_all_moments() -> None:
    finding = check(*LOOP)
    assert (finding.state, finding.kind) == (State.OPPORTUNITY, Kind.WASTE)
    assert finding.title == (
        "80 % of each step runs a recurrence moment by moment: 480 calls for 60 moments at train.py:10"
    )
    assert "torch.nn.LSTM" in finding.advice
    assert finding.ceiling is not None and finding.ceiling.low == pytest.approx(0.4)


def test_a_cell_of_torch_names_its_layer() -> None:
    assert "`torch.nn.GRU`" in check(a_line(9, "gru_cell", weights=4)).advice


@pytest.mark.parametrize(
    "lines",
    [
        (a_line(9, "linear", "relu"),),  # the same block again and again
        (a_line(9, "linear", "sigmoid", "tanh", turns=4, chain=4),),
        (a_line(9, "linear", "sigmoid", "tanh", chain=1),),  # rows, which `piecewise_calls` tells
        (a_line(9, "linear", "sigmoid"), replace(NEW, location=Location("other.py", 4, "forward"))),
        tuple(replace(line, graphed=False) for line in LOOP),  # answers are sampled
        tuple(replace(line, share=0.01) for line in LOOP),
        (replace(CUT, functions=("sigmoid", "tanh")),),
    ],
    ids=["no gates", "few", "rows", "two functions", "no graph", "small", "no weights"],
)
def test_what_is_no_recurrence_of_gates_passes(lines: tuple[LineCalls, ...]) -> None:
    assert check(*lines).state is State.PASSED


def test_without_lines_or_steps_nothing_is_said() -> None:
    assert check().state is State.NOT_APPLICABLE
    assert UnrolledRecurrence().check(a_profile(line_calls=LOOP, phases=None)).state is State.NOT_APPLICABLE


def test_a_layer_that_is_given_one_moment_at_a_time_is_told_to_take_all() -> None:
    finding = check(a_line(9, "lstm", "__getitem__", "unsqueeze", weights=8, share=0.8, turns=30, chain=30))
    assert finding.state is State.OPPORTUNITY and "`torch.nn.LSTM`" in finding.advice
