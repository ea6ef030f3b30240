"""Values are followed through the functions of torch that a step calls."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from advisor.profiles.facts.observed import LineCalls
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.step.lineage import Lineage

WEIGHT = torch.eye(8, requires_grad=True)


def followed(step: Callable[[], object]) -> dict[str, LineCalls]:
    """What the second of two steps is found to do, by each function that a line calls."""
    lineage = Lineage(Clock(lambda step: None))
    lineage.start()
    step()
    lineage.next_step()
    step()
    lineage.stop()
    return {name: line for line in lineage.facts() for name in line.functions}


def test_the_same_function_of_the_same_values_is_repeated_work() -> None:
    def step() -> None:
        for _ in range(10):
            torch.matrix_exp(WEIGHT)
        WEIGHT.data.add_(0.01)

    line = followed(step)["matrix_exp"]
    assert (line.calls, line.repeated, line.repeated_across) == (10, 9, 0)
    assert line.location.function == "step" and line.graphed
    assert 0 < line.repeated_share < line.share <= 1


def test_what_a_line_repeats_is_told_from_what_else_it_calls() -> None:
    def step() -> None:
        sum(torch.matrix_exp(torch.randn(64, 64)) @ torch.ones(64, 64).tril() for _ in range(4))

    repeated = followed(step)["matrix_exp"].repeated_functions
    assert "matrix_exp" not in repeated and set(repeated) <= {"ones", "tril"}


def test_what_is_made_anew_from_constants_is_repeated_from_step_to_step() -> None:
    line = followed(lambda: torch.ones(8, 8).triu().exp())["triu"]
    assert (line.repeated, line.repeated_across) == (3, 3)  # what it is made from, as well
    from_numpy = followed(lambda: torch.from_numpy(np.eye(8)).inverse().sum())["inverse"]
    assert from_numpy.repeated == 2


def test_new_batches_changed_parameters_and_random_numbers_are_not() -> None:
    def step() -> None:
        batch = torch.randn(4, 8)
        nn.functional.linear(batch, WEIGHT)
        nn.functional.dropout(torch.ones(4), 0.5)
        with torch.no_grad():
            WEIGHT.add_(0.01)

    assert all(not line.repeated for name, line in followed(step).items() if name not in ("dropout", "ones"))
    assert followed(step)["dropout"].repeated == 1  # the ones that it is given


def test_a_value_that_was_written_into_is_another_one() -> None:
    kept = torch.zeros(8, 8)

    def step() -> None:
        for row in range(4):
            kept[row, row] += 1
            torch.matrix_exp(kept)

    assert followed(step)["matrix_exp"].repeated == 0


def test_a_loop_over_rows_depends_on_nothing_and_a_recurrence_on_all_before() -> None:
    head, cell, x = nn.Linear(8, 8), nn.Linear(8, 8), torch.randn(20, 8)

    def rows() -> None:
        for row in range(20):
            head(x[row])

    def recurrence() -> None:
        state = torch.zeros(8)
        for row in range(20):
            state = cell(state + x[row])

    free, bound = followed(rows)["linear"], followed(recurrence)["linear"]
    assert (free.turns, free.chain) == (20, 1)
    assert (bound.turns, bound.chain) == (20, 20)


def test_what_comes_back_from_numpy_may_depend_on_all_before() -> None:
    head = nn.Linear(8, 8)

    def step() -> None:
        state = np.ones(8, dtype=np.float32)
        for _ in range(6):
            state = head(torch.from_numpy(state)).detach().numpy() + 1

    assert followed(step)["linear"].chain == 6


def test_afterwards_torch_is_as_before() -> None:
    before = torch.from_numpy
    followed(lambda: torch.ones(2))
    assert torch.from_numpy is before
    assert torch._C._len_torch_function_stack() == 0


def test_averages_that_a_norm_keeps_over_batches_are_new_after_each() -> None:
    norm = nn.BatchNorm1d(8)

    def after() -> None:
        norm(torch.randn(4, 8))
        norm.running_mean.mul(0.5)  # type: ignore[union-attr]

    def before() -> None:
        norm.running_mean.mul(0.5)  # type: ignore[union-attr]
        norm(torch.randn(4, 8))

    assert [followed(step)["mul"].repeated for step in (after, before)] == [0, 0]


def test_numbers_of_lists_that_become_tensors_are_counted_at_their_line() -> None:
    rows = [[1.0] * 8 for _ in range(4)]
    arrays = [np.zeros(8, np.float32) for _ in range(4)]

    def step() -> None:
        torch.tensor(rows)
        torch.as_tensor(np.stack(arrays))

    lines = followed(step)
    assert lines["tensor"].listed == 32 and "as_tensor" not in lines


def test_weights_that_stay_as_they_are_are_told_from_those_that_learn_or_follow() -> None:
    frozen, follows, learns = (nn.Linear(8, 8) for _ in range(3))
    frozen.requires_grad_(requires_grad=False)
    follows.requires_grad_(requires_grad=False)

    def step() -> None:
        batch = torch.randn(4, 8)
        torch.relu(frozen(batch))
        torch.tanh(follows(batch))
        torch.sigmoid(learns(batch))
        for target, source in zip(follows.parameters(), learns.parameters(), strict=True):
            target.data.mul_(0.9).add_(source.data, alpha=0.1)

    found = followed(step)
    counts = {name: (found[name].frozen, found[name].weights) for name in ("relu", "tanh", "sigmoid")}
    assert counts == {"relu": (2, 0), "tanh": (0, 0), "sigmoid": (0, 2)}


def test_scores_of_which_an_index_takes_the_last_are_mostly_unread() -> None:
    body, head, x = nn.Linear(8, 8), nn.Linear(8, 500), torch.randn(4, 10, 8)

    def step() -> None:
        head(body(x).relu())[:, -1].sum()

    line = followed(step)["linear"]
    assert line.unread is not None and 0 < line.unread.share <= line.share
    assert line.unread.read == pytest.approx(0.1, abs=0.01) and not line.unread.masked
    assert line.unread.calls == 3  # and what leads to it alone


def test_columns_that_an_index_takes_need_all_that_leads_to_them() -> None:
    body, head, x = nn.Linear(8, 8), nn.Linear(8, 500), torch.randn(4, 8)

    def step() -> None:
        head(body(x))[:, 0].sum()

    unread = followed(step)["linear"].unread
    assert unread is not None and unread.calls == 1


def test_rows_that_a_factor_sets_to_zero_are_unread() -> None:
    expert = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
    x, chosen = torch.randn(40, 8), (torch.arange(40) % 8 == 0).float().unsqueeze(1)

    def step() -> None:
        out = torch.zeros(40, 8)
        out = out + chosen * expert(x)

    unread = followed(step)["linear"].unread
    assert unread is not None and unread.masked and unread.calls == 3
    assert unread.read == pytest.approx(0.125, abs=0.01)


def test_what_is_read_whole_elsewhere_is_not_unread() -> None:
    head, x = nn.Linear(8, 50), torch.randn(4, 10, 8)

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, given: torch.Tensor) -> torch.Tensor:
            return given * 2

    def summed() -> None:
        scores = head(x)
        (scores[:, -1].sum() + scores.sum()).item()

    def told() -> None:
        scores = head(x)
        scores[:, -1].sum()
        scores.tolist()

    def unseen() -> None:
        scores = head(x)
        (scores[:, -1].sum() + Twice.apply(scores).sum()).item()  # type: ignore[no-untyped-call]

    def parts() -> None:
        scores = head(x)
        scores[:, :5].sum() + scores[:, 5:].sum()

    def alone() -> None:
        head(x)

    for step in (summed, told, unseen, parts, alone):
        assert followed(step)["linear"].unread is None, step.__name__
