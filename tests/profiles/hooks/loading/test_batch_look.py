"""What the first batches of a loader look like."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from advisor.profiles.hooks.loading.batch_look import LOOKED_AT, BatchLook, padded


def looked_at(*batches: Any, workers: int = 0) -> BatchLook:
    look = BatchLook(workers)
    for batch in batches:
        look.see(batch)
    return look


def test_a_smaller_last_batch_is_no_other_shape() -> None:
    look = looked_at(torch.ones(4, 3), torch.ones(4, 3), torch.ones(1, 3))
    assert (look.shapes, look.shapes_vary, look.batch_bytes) == (1, False, 48)


def test_batches_of_different_length_are_counted() -> None:
    look = looked_at(torch.ones(4, 3), torch.ones(4, 5), torch.ones(4, 7), torch.ones(4, 3))
    assert (look.shapes, look.shapes_vary) == (3, True)


def test_the_tensors_of_the_first_batch_are_counted() -> None:
    assert looked_at({"a": torch.ones(4), "b": [torch.ones(4, 2), torch.ones(4)]}, torch.ones(4)).tensors == 3
    assert BatchLook().tensors is None


def test_one_batch_says_nothing_of_others() -> None:
    assert looked_at(torch.ones(4, 3)).shapes_vary is None


def test_looking_ends_after_the_first_batches() -> None:
    assert looked_at(*[torch.ones(1)] * (LOOKED_AT - 1)).running
    assert not looked_at(*[torch.ones(1)] * LOOKED_AT).running


def rows(*lengths: int, width: int = 10, filler: int = 0) -> torch.Tensor:
    """Token ids from 1 on, and the filler behind so many of them."""
    tokens = torch.arange(1, width + 1).repeat(len(lengths), 1)
    for row, length in enumerate(lengths):
        tokens[row, length:] = filler
    return tokens


def test_padding_is_what_the_attention_mask_leaves_out() -> None:
    mask = torch.ones(2, 10, dtype=torch.int64)
    mask[0, 4:] = 0
    assert padded({"input_ids": torch.ones(2, 10, dtype=torch.int64), "attention_mask": mask}) == (6.0, 20)


def test_padding_is_the_value_that_ends_the_rows() -> None:
    assert padded((rows(10, 4, 6), torch.ones(3))) == (10.0, 30)
    assert padded((rows(10, 4, 6, filler=-100),)) == (10.0, 30)


@pytest.mark.parametrize(
    "batch",
    [rows(10, 10, 10), torch.eye(16, dtype=torch.int64), torch.tensor([[1, 0, 1, 0] * 3, [0, 1, 0, 0] * 3])],
    ids=["full rows", "one-hot labels", "several labels"],
)
def test_integers_without_padding_have_none(batch: torch.Tensor) -> None:
    assert padded([batch]) == (0.0, batch.numel())


@pytest.mark.parametrize(
    "batch", [torch.ones(4, 12), torch.zeros(4, 28, dtype=torch.uint8), rows(3, 3, width=4), "text"]
)
def test_what_is_no_token_ids_has_no_padding_share(batch: Any) -> None:
    assert looked_at(batch).padding_share is None


class Numbers(IterableDataset[torch.Tensor]):
    """Each worker reads all of it, unless it is sharded."""

    def __init__(self, sharded: bool) -> None:
        self.sharded = sharded

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        assert info is not None
        first, stride = (info.id, info.num_workers) if self.sharded else (0, 1)
        return iter([torch.tensor([n, n]) for n in range(first, 24, stride)])


@pytest.mark.parametrize(("sharded", "share"), [(False, 0.5), (True, 0.0)])
def test_samples_that_several_workers_deliver_are_counted(sharded: bool, share: float) -> None:
    loader = DataLoader(Numbers(sharded), batch_size=4, num_workers=2)
    assert looked_at(*loader, workers=2).duplicate_share == share


def test_a_later_epoch_does_not_count_as_a_copy() -> None:
    look = BatchLook(workers=2)
    for _ in range(2):
        look.see(torch.tensor([[1.0], [2.0]]))
        look.see(torch.tensor([[3.0], [4.0]]))
        look.see(torch.tensor([[5.0], [6.0]]))
        look.end_epoch()
    assert look.duplicate_share == 0.0


def test_values_that_every_worker_repeats_are_no_copies() -> None:
    labels = torch.tensor([0, 1] * 50)
    look = looked_at(*[labels] * 8, workers=2)
    assert look.duplicate_share is not None and look.duplicate_share < 0.01


def test_nothing_is_looked_for_without_workers() -> None:
    assert looked_at(torch.ones(2, 2), torch.ones(2, 2)).duplicate_share is None
