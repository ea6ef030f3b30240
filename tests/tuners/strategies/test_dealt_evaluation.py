"""Workers that share an evaluation."""

import queue
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ranks import answers_of
from sharded_training import a_workload
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from advisor.tuners.mechanisms.data_parallel.dealt_evaluation import DealtEvaluation, share_of
from advisor.tuners.place import HERE, Place
from advisor.tuners.strategies import STRATEGIES
from advisor.tuners.trial.loop import train

DATA = TensorDataset(torch.arange(11.0))


def seen(loader: "DataLoader[Any]") -> list[list[float]]:
    return [batch[0].tolist() for batch in loader]


@given(st.integers(1, 40), st.integers(1, 8))
def test_together_the_workers_see_every_batch_and_each_as_many(count: int, workers: int) -> None:
    batches = [[number] for number in range(count)]
    shares = [share_of(batches, rank, workers) for rank in range(workers)]
    assert {len(share) for share in shares} == {-(-count // workers)}
    assert sorted({batch[0] for share in shares for batch in share}) == list(range(count))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_in_order_gives_every_second_batch_while_it_lasts(workers: int) -> None:
    loader = DataLoader(DATA, batch_size=2, num_workers=workers, persistent_workers=bool(workers))
    whole = seen(loader)
    for rank in (0, 1):
        share = DealtEvaluation(rank, 2)
        with share():
            assert seen(loader) == seen(loader) == whole[rank::2]
        assert seen(loader) == whole


def test_what_cannot_be_dealt_out_stays_whole() -> None:
    class Stream(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter(range(5))

    at_random = DataLoader(DATA, batch_size=2, shuffle=True)
    own_batches = DataLoader(DATA, batch_sampler=[[0, 1], [5]])
    with DealtEvaluation(0, 2)():
        assert sorted(value for batch in seen(at_random) for value in batch) == list(range(11))
        assert seen(own_batches) == [[0.0, 1.0], [5.0]]
        assert len(list(DataLoader(Stream()))) == 5


def test_an_error_in_the_evaluation_leaves_loaders_as_they_were() -> None:
    before = DataLoader.__iter__
    with pytest.raises(ZeroDivisionError), DealtEvaluation(0, 2)():
        raise ZeroDivisionError
    assert DataLoader.__iter__ is before


class Enough(Exception):
    """Ends the endless loop."""


def evaluated_batches(answers: Any, rank: int, workers: int, folder: str, strategy: str) -> None:
    """Puts how many of four batches this rank's first evaluation saw."""
    torch.set_num_threads(1)
    loader = DataLoader(TensorDataset(torch.randn(32, 6)), batch_size=8)

    def evaluate(model: nn.Module) -> float:
        answers.put(sum(len(model(inputs)) > 0 for (inputs,) in loader))
        raise Enough

    HERE.place = Place(rank, workers, 0, f"{folder}/rendezvous")
    HERE.config = {"strategy": strategy, "ranks": workers}
    HERE.join()
    with suppress(Enough):
        train(a_workload(evaluate=evaluate), "cpu", None, STRATEGIES[strategy])


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_ranks_evaluate_half_of_the_batches_each(strategy: str, tmp_path: Path) -> None:
    each = [(rank, 2, str(tmp_path), strategy) for rank in (0, 1)]
    assert answers_of(evaluated_batches, each, count=2, limit_s=120) == [2, 2]


def test_a_process_alone_evaluates_every_batch() -> None:
    answers: queue.Queue[int] = queue.Queue()
    loader = DataLoader(TensorDataset(torch.randn(32, 6)), batch_size=8)

    def evaluate(model: nn.Module) -> float:
        answers.put(sum(len(model(inputs)) > 0 for (inputs,) in loader))
        raise Enough

    with pytest.raises(Enough):
        train(a_workload(evaluate=evaluate), "cpu")
    assert answers.get_nowait() == 4
