"""Samples put together to requests, and their outputs taken apart again."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from advisor.workloads.gathering import (
    Gatherer,
    Gathering,
    by_length,
    length_of,
    padded_lengths,
    padding_saved,
    taken_apart,
)


def numbered() -> Iterator[tuple[torch.Tensor, int]]:
    """Items of lengths 1 to 8 in some order, again and again; their first value is their number."""
    lengths = itertools.cycle([5, 1, 8, 3, 7, 2, 6, 4])
    return ((torch.full((length,), float(number)), 0) for number, length in enumerate(lengths))


def padded(items: list[Any]) -> tuple[Any, Any]:
    inputs = torch.nn.utils.rnn.pad_sequence([item[0] for item in items], batch_first=True)
    return inputs, torch.tensor([item[1] for item in items])


def numbers(batch: list[Any]) -> list[int]:
    return [int(item[0][0]) for item in batch]


def test_samples_come_in_their_order_and_as_many_as_the_plan_says_now() -> None:
    plan = Gathering(2)
    batches = iter(Gatherer(numbered(), lambda: plan))
    assert [numbers(next(batches)) for _ in range(2)] == [[0, 1], [2, 3]]
    plan = Gathering(3)
    assert numbers(next(batches)) == [4, 5, 6]


def test_a_pool_is_sorted_and_each_request_loads_as_many_items_as_it_has() -> None:
    loaded = 0

    def items() -> Iterator[Any]:
        nonlocal loaded
        for item in numbered():
            loaded += 1
            yield item

    batches = iter(Gatherer(items(), lambda: Gathering(2, pool=4)))
    first = [next(batches) for _ in range(4)]
    assert sorted(number for batch in first for number in numbers(batch)) == list(range(8))
    assert all(abs(length_of(one) - length_of(two)) == 1 for one, two in first)
    assert loaded == 8 + 4 * 2
    second = [next(batches) for _ in range(4)]
    assert sorted(number for batch in second for number in numbers(batch)) == list(range(8, 16))
    assert loaded == 8 + 8 * 2


def test_sorting_saves_what_was_padded_and_nothing_of_one_length() -> None:
    items = list(itertools.islice(numbered(), 64))
    assert padding_saved(items, padded, 4) == pytest.approx(1 - 36 / (4 * 8 + 4 * 7))
    even = [(torch.ones(5), 0)] * 64
    assert padding_saved(even, padded, 4) == padding_saved([], padded, 4) == 0


def test_a_length_counts_values_of_inputs_and_not_of_targets() -> None:
    assert length_of((torch.ones(3, 4), torch.ones(100))) == 12
    assert length_of({"ids": torch.ones(5), "labels": torch.ones(9)}) == length_of("words") == 5


def test_outputs_of_a_batch_are_those_of_its_samples() -> None:
    output = {"logits": torch.arange(6.0).reshape(3, 2), "cache": None, "hidden": (torch.ones(3, 4),)}
    parts = taken_apart(output, 3)
    assert parts is not None and len(parts) == 3
    assert parts[1]["logits"].tolist() == [[2.0, 3.0]] and parts[1]["cache"] is None
    assert tuple(parts[1]["hidden"][0].shape) == (1, 4)
    assert taken_apart(["a", "b", "c"], 3) == ["a", "b", "c"]


@pytest.mark.parametrize("output", [torch.tensor(1.0), torch.ones(2, 3), 0.5, {"loss": torch.tensor(1.0)}])
def test_what_is_of_all_samples_together_is_not_taken_apart(output: Any) -> None:
    assert taken_apart(output, 3) is None


def test_what_was_padded_is_left_out_of_outputs() -> None:
    items = [(torch.ones(2, 1), 0), (torch.ones(4, 1), 0)]
    lengths = padded_lengths(items, (torch.ones(2, 4, 1), None))
    assert lengths == (4, [2, 4])
    parts = taken_apart(torch.ones(2, 4, 7), 2, lengths)
    assert parts is not None and [tuple(part.shape) for part in parts] == [(1, 2, 7), (1, 4, 7)]
    assert padded_lengths([(torch.ones(4, 1), 0)] * 2, (torch.ones(2, 4, 1), None)) is None


def test_batches_of_like_length_alternate_between_short_and_long() -> None:
    batches = by_length([torch.ones(length) for length in (4, 3, 2, 1, 5, 6, 7, 8)], 2)
    assert [[len(item) for item in batch] for batch in batches] == [[1, 2], [5, 6], [3, 4], [7, 8]]
