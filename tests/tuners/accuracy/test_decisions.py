from typing import Any

import numpy as np
import pytest
import torch

from advisor.tuners.accuracy.decisions import Decider, decider, divergence, flips, independent_flips
from advisor.tuners.accuracy.outputs import flattened

WHERE: dict[str, tuple[Any, Decider | None]] = {
    "classes of a batch of one": (torch.zeros(1, 10), Decider("", 1)),
    "classes": (torch.zeros(10), Decider("", 0)),
    "tokens": (torch.zeros(1, 7, 50), Decider("", 2)),
    "a picture of classes": (torch.zeros(1, 5, 8, 8), Decider("", 1)),
    "named logits before a state": (
        {"last_hidden_state": torch.zeros(1, 9), "logits": torch.zeros(1, 4, 9)}, Decider("logits", 2),
    ),
    "a state is no decision": ({"last_hidden_state": torch.zeros(1, 4, 9)}, None),
    "a picture with one channel": (torch.zeros(1, 1, 8, 8), None),
    "a quantity": (torch.zeros(1), None),
    "a label": ([{"label": "cat", "score": 0.9}], Decider("0.label", None)),
    "generated tokens": (torch.zeros(1, 12, dtype=torch.int64), Decider("", None)),
}  # fmt: skip


@pytest.mark.parametrize(("output", "expected"), WHERE.values(), ids=WHERE)
def test_where_an_output_decides(output: Any, expected: Decider | None) -> None:
    assert decider(flattened(output)) == expected


def test_each_token_is_a_decision() -> None:
    own = flattened(torch.tensor([[[1.0, 2.0], [3.0, 1.0]]]))
    other = flattened(torch.tensor([[[1.0, 2.0], [1.0, 3.0]]]))
    assert flips(Decider("", 2), own, other).tolist() == [False, True]


def test_other_generated_tokens_are_one_flip() -> None:
    own, other = flattened(np.array([[1, 2, 3]])), flattened(np.array([[1, 2, 4]]))
    assert flips(Decider("", None), own, other).tolist() == [True]


def test_logits_and_their_distribution_diverge_alike() -> None:
    own, other = torch.tensor([[2.0, 0.5, -1.0]]), torch.tensor([[1.0, 0.5, 0.0]])
    where = Decider("", 1)
    expected = (own.softmax(1) * (own.log_softmax(1) - other.log_softmax(1))).sum().item()
    for pair in ((own, other), (own.softmax(1), other.softmax(1))):
        assert divergence(where, *map(flattened, pair)) == pytest.approx(expected, rel=1e-4)


def test_impossible_classes_add_nothing() -> None:
    masked = flattened(torch.tensor([[1.0, 0.0, float("-inf")]]))
    assert divergence(Decider("", 1), masked, masked) == 0


def test_of_dependent_decisions_one_per_sample_counts() -> None:
    all_changed, none_changed = np.ones(50, bool), np.zeros(50, bool)
    assert independent_flips([all_changed, none_changed, all_changed]) == 2
