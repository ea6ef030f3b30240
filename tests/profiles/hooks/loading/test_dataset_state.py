from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, Subset

from advisor.profiles.hooks.loading.dataset_state import MOST, first_difference, state_of


class Noise:
    def __init__(self) -> None:
        self.p = 0.5


class Rows(Dataset[int]):
    def __init__(self) -> None:
        self.epoch = 0
        self.scale = float("nan")
        self.rows = torch.zeros(8, 4)
        self.order = np.arange(1000)
        self.hard = [1, 2, 3]
        self.transforms = [Noise()]
        self.shared = torch.zeros(1).share_memory_()
        self.weights = {"dog": 1.0}

    def __len__(self) -> int:
        return 4


def grown(rows: Rows) -> None:
    rows.hard.append(4)


def shuffled(rows: Rows) -> None:
    np.random.default_rng(0).shuffle(rows.order)


CHANGES: dict[str, Callable[[Rows], Any]] = {
    "dataset.dataset.epoch": lambda rows: setattr(rows, "epoch", 1),
    "dataset.dataset.rows": lambda rows: rows.rows.fill_(1),
    "dataset.dataset.order": shuffled,
    "dataset.dataset.hard": grown,
    "dataset.dataset.transforms.0.p": lambda rows: setattr(rows.transforms[0], "p", 0.1),
    "dataset.dataset.weights.dog": lambda rows: rows.weights.update(dog=2.0),
    "dataset.dataset.fresh": lambda rows: setattr(rows, "fresh", 1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_attribute_is_named(name: str) -> None:
    rows = Rows()
    subset = Subset(rows, [0, 1])
    before = state_of(subset, None)
    CHANGES[name](rows)
    assert first_difference(before, state_of(subset, None)) == name


def test_what_stays_is_no_difference_and_nor_is_what_workers_share() -> None:
    rows = Rows()
    before = state_of(rows, len)
    rows.shared.fill_(1)
    assert first_difference(before, state_of(rows, len)) is None


def test_the_function_that_joins_items_may_change_too() -> None:
    joins = Noise()
    before = state_of(None, joins)
    joins.p = 0.1
    assert first_difference(before, state_of(None, joins)) == "collate_fn.p"


def test_what_answers_any_attribute_is_not_asked_and_a_circle_ends() -> None:
    class Lazy(Dataset[int]):
        def __getattr__(self, name: str) -> Any:
            raise AssertionError("asked")

    lazy = Lazy()
    vars(lazy)["itself"] = lazy
    assert [name for name in state_of(lazy, None) if "dataset" in name] == []


def test_a_large_dataset_is_told_by_a_sample() -> None:
    rows = Rows()
    vars(rows).update({f"list_{number}": list(range(10**4)) for number in range(100)})
    assert len(state_of(rows, None)) <= MOST + 100
