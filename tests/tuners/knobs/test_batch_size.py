from typing import Any

import pytest
import torch
from builders import a_loader, a_profile
from torch.utils.data import DataLoader, TensorDataset

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.knobs.batch_size import BatchSize


def of(**facts: object) -> Profile:
    return a_profile(loader=a_loader(**facts))


def test_larger_batches_come_before_smaller_ones() -> None:
    assert BatchSize().choices(of(batch_size=32)) == [32, 64, 128, 256, 512, 16, 8]


def test_no_batch_is_larger_than_the_dataset() -> None:
    assert BatchSize().choices(of(batch_size=32, dataset_length=100)) == [32, 64, 16, 8]


def test_a_batch_of_one_has_no_smaller_ones() -> None:
    assert BatchSize().choices(of(batch_size=1, dataset_length=3)) == [1, 2]


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(), "no DataLoader"),
        (of(own_batch_sampler=True), "batch sampler of its own"),
        (of(batch_size=None), "batch_size=None"),
        (of(batch_size=1, dataset_length=1), "no other batch size"),
    ],
)
def test_where_the_batch_cannot_be_changed_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        BatchSize().choices(profile)


def test_a_named_batch_beyond_the_dataset_is_refused() -> None:
    with pytest.raises(Refused, match="a batch of 200 is more than the dataset's 100 items"):
        BatchSize().check(200, of(dataset_length=100))


def test_a_real_loader_makes_batches_of_the_new_size() -> None:
    arguments: dict[str, Any] = {"dataset": TensorDataset(torch.zeros(16, 2)), "batch_size": 4}
    BatchSize().loader(arguments, 8)
    assert [len(batch) for (batch,) in DataLoader(**arguments)] == [8, 8]


def test_a_loader_with_its_own_batch_sampler_is_left_alone() -> None:
    arguments = {"dataset": [1, 2], "batch_sampler": [[0, 1]], "batch_size": 1}
    with pytest.raises(Refused, match="batch sampler"):
        BatchSize().loader(arguments, 8)
    assert arguments["batch_size"] == 1


def test_a_loader_that_makes_no_batches_is_refused() -> None:
    with pytest.raises(Refused, match="batch_size=None"):
        BatchSize().loader({"dataset": [1], "batch_size": None}, 8)


def test_a_batch_size_changes_what_is_learnt() -> None:
    assert BatchSize.semantics is Semantics.TRAINING
    assert BatchSize().change(64) == Change("DataLoader(..., batch_size=64)")
