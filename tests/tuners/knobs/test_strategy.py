"""How the batch of a loader is divided among ranks, and when it cannot be."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from builders import a_rich_profile
from torch.utils.data import IterableDataset, TensorDataset

from advisor.tuners.knob import Refused
from advisor.tuners.knobs import KNOBS
from advisor.tuners.place import HERE, Place

KNOB: Any = KNOBS["strategy"]
DATASET = TensorDataset(torch.arange(8))


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield from range(8)


@pytest.fixture(autouse=True)
def _second_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HERE, "place", Place(1, 2))


def test_each_rank_takes_its_share_of_a_batch() -> None:
    arguments: dict[str, Any] = {"dataset": DATASET, "batch_size": 4, "shuffle": False}
    KNOB.loader(arguments, "ddp")
    assert arguments["batch_size"] == 2
    assert list(arguments["sampler"]) == [1, 3, 5, 7]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"batch_size": 31}, "a batch of 31 cannot be divided among 2 ranks"),
        ({"batch_size": 4, "sampler": range(8)}, "a sampler of its own"),
        ({"batch_sampler": [[0]]}, "a batch_sampler of its own"),
        ({"batch_size": 4, "dataset": Endless()}, "the same samples"),
    ],
    ids=["batch", "sampler", "batch sampler", "iterable"],
)
def test_a_loader_that_cannot_be_divided_is_refused(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=told):
        KNOB.loader({"dataset": DATASET, **arguments}, "ddp")


def test_the_loop_of_a_script_is_not_changed() -> None:
    with pytest.raises(Refused, match="advisor init"):
        KNOB.check("zero", a_rich_profile(target_kind="script"))
