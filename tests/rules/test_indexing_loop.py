from dataclasses import replace

import pytest
from builders import a_rich_profile, a_window, an_op

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import LineCalls, Location
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import Repetition
from advisor.rules.indexing_loop import IndexingLoop

LINE = Location("model.py", 33, "forward")
BODY = ("aten::select", "aten::mul", "aten::add")


def a_run_with(*loops: Repetition) -> Profile:
    return a_rich_profile(window=a_window(an_op(), repetitions=loops))


def test_a_loop_over_single_rows_is_reported_at_its_line() -> None:
    finding = IndexingLoop().check(a_run_with(Repetition(BODY, 64, 1.0, 2.5, LINE)))
    assert finding.state is State.OPPORTUNITY and finding.kind is Kind.WASTE
    assert finding.severity is Severity.HIGH
    assert finding.ceiling is not None
    assert (finding.ceiling.share, finding.ceiling.source) == (0.25, "timeline")
    assert finding.location == LINE
    assert finding.advice.startswith("Replace the loop at model.py:33 by one operator")
    assert finding.title == "25 % of each step indexes tensors in Python loops"


def test_nine_turns_are_too_few() -> None:
    assert IndexingLoop().check(a_run_with(Repetition(BODY, 9, 1.0, 2.5, LINE))).state is State.PASSED


def test_a_loop_that_takes_no_time_passes_with_its_share() -> None:
    finding = IndexingLoop().check(a_run_with(Repetition(BODY, 64, 1.0, 0.15, LINE)))
    assert finding.state is State.PASSED and finding.title.startswith("1.5 %")


def test_layers_that_repeat_without_indexing_are_no_loop_over_a_tensor() -> None:
    layers = Repetition(("aten::linear", "aten::relu"), 24, 1.0, 8.0, LINE)
    assert IndexingLoop().check(a_run_with(layers)).state is State.PASSED


def test_items_taken_by_the_loader_are_left_to_the_input_rules() -> None:
    items = Repetition(("aten::select",), 64, 1.0, 2.5, LINE, phase="loader")
    assert IndexingLoop().check(a_run_with(items)).state is State.PASSED


@pytest.mark.parametrize("body", [("aten::linear", "aten::tanh"), ("aten::gru_cell",)])
def test_a_cell_over_time_is_only_mentioned_since_turns_may_depend_on_each_other(
    body: tuple[str, ...],
) -> None:
    cell = Repetition(("aten::select", *body), 50, 1.0, 6.0, LINE)
    finding = IndexingLoop().check(a_run_with(cell))
    assert finding.state is State.DIAGNOSTIC and finding.severity is Severity.LOW
    assert finding.kind is Kind.HEADROOM
    assert "if no turn needs the result" in finding.advice


def test_beside_a_cell_over_time_a_plain_loop_counts_alone() -> None:
    cell = Repetition(("aten::select", "aten::linear"), 50, 1.0, 6.0, Location("rnn.py", 1))
    finding = IndexingLoop().check(a_run_with(cell, Repetition(BODY, 64, 1.0, 1.5, LINE)))
    assert finding.ceiling is not None and finding.ceiling.share == 0.15
    assert finding.location == LINE


def test_no_repetitions_pass_and_no_operators_abstain() -> None:
    assert IndexingLoop().check(a_run_with()).title.startswith("0.0 %")


def test_ten_turns_are_enough() -> None:
    assert IndexingLoop().check(a_run_with(Repetition(BODY, 10, 1.0, 2.5, LINE))).fired


def test_a_layer_whose_turns_need_each_other_is_not_to_be_given_all_pieces() -> None:
    loop = Repetition((*BODY, "aten::lstm"), 30, 1.0, 2.5, Location("model.py", 35, "forward"))
    calls = LineCalls(LINE, "forward", ("lstm",), 30, 0.8, 0, 0, 0.0, turns=30, chain=30, weights=8)
    profile = replace(a_run_with(loop), line_calls=(calls,))
    assert IndexingLoop().check(profile).state is State.PASSED
    assert IndexingLoop().check(replace(profile, line_calls=())).fired
