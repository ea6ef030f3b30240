"""Datasets made anew for each epoch are changed as the first one was, those beside them are left alone."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from advisor.profiles.events import Run
from advisor.profiles.hooks.loading.remade import made_anew
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.watch import Watch
from advisor.tuners.knob import Refused
from advisor.tuners.knobs import KNOBS


class Wrapped(Dataset[Any]):
    """Another dataset's items."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, index: int) -> Any:
        return self.inner[index]


class Wrapping:
    """A knob that puts another dataset in place of the program's."""

    layer = 0

    def prepare(self, config: Any, present: Any) -> None:
        pass

    def loader(self, arguments: dict[str, Any], value: Any) -> None:
        arguments["dataset"] = Wrapped(arguments["dataset"])


class Trial:
    """A program that trains in a trial with twice its batch size."""

    def __init__(self) -> None:
        knobs: dict[str, Any] = {"batch_size": KNOBS["batch_size"], "wrapping": Wrapping()}
        run = Run(knobs, {"batch_size": 4, "wrapping": "off"}, Refused, training_dataset=0)
        self.run = run
        self.watch = Watch(run, Clock(lambda step: None))
        self.watch.install()
        self.model = nn.Linear(2, 1)
        self.sgd = torch.optim.SGD(self.model.parameters(), lr=0.0)

    def train(self, loader: DataLoader[Any]) -> list[int]:
        """Returns the sizes of its batches."""
        sizes = []
        for (batch,) in loader:
            sizes.append(len(batch))
            self.model(batch).mean().backward()
            self.sgd.step()
        return sizes

    def evaluate(self, loader: DataLoader[Any]) -> list[int]:
        with torch.no_grad():
            return [len(self.model(batch)) for (batch,) in loader]

    @property
    def ordinals(self) -> list[int]:
        return [record.ordinal for record in self.watch.loaders()]


@pytest.fixture
def trial() -> Iterator[Trial]:
    trial = Trial()
    trial.run.configure({"batch_size": 8})
    yield trial
    trial.watch.remove()


def rows(length: int, value: float = 1.0) -> TensorDataset:
    return TensorDataset(torch.full((length, 2), value))


def a_loader(dataset: Dataset[Any], **options: Any) -> DataLoader[Any]:
    """One line makes all loaders of a program."""
    return DataLoader(dataset, batch_size=4, **options)


def test_a_dataset_made_anew_for_each_epoch_is_changed_in_each(trial: Trial) -> None:
    assert [trial.train(DataLoader(rows(16), batch_size=4)) for _ in range(3)] == [[8, 8]] * 3
    assert trial.ordinals == [0, 0, 0]


def test_validation_data_of_the_same_line_stay_as_they_are(trial: Trial) -> None:
    for _ in range(3):
        assert trial.train(a_loader(rows(16), shuffle=True)) == [8, 8]
        assert trial.evaluate(a_loader(rows(16))) == [4, 4, 4, 4]  # no shuffle
        assert trial.evaluate(a_loader(rows(8), shuffle=True)) == [4, 4]  # fewer
    assert [ordinal == 0 for ordinal in trial.ordinals] == [True, False, False] * 3


def test_folds_differ_by_an_item(trial: Trial) -> None:
    assert [trial.train(a_loader(rows(length))) for length in (16, 15, 16)] == [[8, 8], [8, 7], [8, 8]]


def test_of_datasets_side_by_side_each_is_its_own_successor(trial: Trial) -> None:
    for _ in range(3):
        first, second = a_loader(rows(16)), a_loader(rows(16))
        for (one,), (other,) in zip(first, second, strict=False):
            trial.model(torch.cat([one, other])).mean().backward()
            trial.sgd.step()
    assert trial.ordinals == [0, 1] * 3


def test_what_never_served_a_step_has_no_successor(trial: Trial) -> None:
    loaders = [a_loader(rows(16)) for _ in range(3)]
    assert [loader.batch_size for loader in loaders] == [8, 4, 4]
    assert trial.ordinals == [0, 1, 2]


def test_each_dataset_is_changed_itself(trial: Trial) -> None:
    trial.run.configure({"wrapping": "on"})
    for value in (1.0, 2.0, 3.0):
        loader = DataLoader(rows(8, value), batch_size=4)
        assert type(loader.dataset) is Wrapped
        trial.train(loader)
        assert next(iter(loader))[0].unique().tolist() == [value]


def test_a_place_that_is_not_known_tells_nothing() -> None:
    assert made_anew([], {"dataset": rows(4)}, None) is None
