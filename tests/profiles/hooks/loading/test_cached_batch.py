from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from advisor.profiles.events import Run
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.watch import Watch


@pytest.fixture
def watch() -> Iterator[Watch]:
    watch = Watch(Run({}, {}), Clock(lambda step: None))
    watch.install()
    yield watch
    watch.remove()


def training() -> Iterator[list[float]]:
    """Yields the first value of each sample of a batch, once the step with it is over."""
    data = TensorDataset(torch.arange(12.0).reshape(12, 1))
    loader: DataLoader[tuple[torch.Tensor, ...]] = DataLoader(data, batch_size=4)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    while True:
        for (batch,) in loader:
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            yield batch[:, 0].tolist()


def test_one_batch_stands_in_for_all_until_it_is_taken_back(watch: Watch) -> None:
    steps = training()
    assert next(steps) == [0, 1, 2, 3]
    watch.omit("loader")
    assert [next(steps) for _ in range(5)] == [[4, 5, 6, 7]] * 5
    watch.omit(None)
    assert next(steps) == [8, 9, 10, 11]


def test_a_batch_of_twice_or_half_the_size_is_made_of_the_same_samples(watch: Watch) -> None:
    steps = training()
    next(steps)
    watch.omit("double")
    assert next(steps) == [4, 5, 6, 7, 4, 5, 6, 7]
    watch.omit("half")
    assert next(steps) == [8, 9]


def test_without_a_loader_the_replay_is_refused(watch: Watch) -> None:
    with pytest.raises(ValueError, match="no DataLoader"):
        watch.omit("loader")


def test_a_loader_for_evaluation_goes_on_as_before(watch: Watch) -> None:
    steps = training()
    next(steps)
    next(steps)
    watch.omit("loader")
    other: DataLoader[tuple[torch.Tensor, ...]] = DataLoader(TensorDataset(torch.ones(6, 1)), batch_size=3)
    assert len(list(other)) == 2
