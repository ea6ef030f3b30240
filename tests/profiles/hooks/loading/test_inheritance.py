"""What a dataset holds before its first item, and workers would get a copy of."""

import io
import random
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from advisor.profiles.events import Run
from advisor.profiles.facts.inherited import Inherited
from advisor.profiles.hooks.loading.inheritance import Inheritance
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.watch import Watch


class Rows(Dataset[torch.Tensor]):
    def __init__(self, **held: Any) -> None:
        self.rows = torch.zeros(8, 4)
        self.held = held.get("held")
        self.dataset = held.get("dataset")
        self.transforms = [Noise(held["rng"])] if "rng" in held else []

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        for transform in self.transforms:
            transform.rng.random()
        return self.rows[index]


class Noise:
    def __init__(self, rng: Any) -> None:
        self.rng = rng


def found(dataset: Any) -> list[tuple[str, str, str]]:
    inheritance = Inheritance()
    inheritance.look(dataset, None)
    return [(each.kind, each.name, each.type) for each in inheritance.found(made_here=False)]


def test_files_archives_and_connections_are_handles(tmp_path: Path) -> None:
    path = tmp_path / "rows.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("one", "1")
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        assert ("handle", "dataset.held", "zipfile.ZipFile") in found(Rows(held=archive))
        assert found(Rows(held=file)) == [("handle", "dataset.held", "io.BufferedReader")]
    connection = sqlite3.connect(":memory:")
    assert found(Rows(held={"db": connection})) == [("handle", "dataset.held.db", "sqlite3.Connection")]
    connection.close()


def test_what_is_closed_in_memory_or_made_later_is_none(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("1")
    with (tmp_path / "rows").open() as file:
        pass
    for held in (file, io.BytesIO(b"1"), None, zipfile.ZipFile, torch.zeros(4), [1, 2]):
        assert found(Rows(held=held)) == []


@pytest.mark.parametrize(
    "rng",
    [np.random.default_rng(0), np.random.RandomState(0), random.Random(0), torch.Generator()],
    ids=["numpy", "numpy, the older one", "python", "torch"],
)
def test_generators_are_found_in_transforms_of_datasets_in_datasets(rng: Any) -> None:
    ((kind, name, _),) = found(Rows(dataset=Rows(rng=rng)))
    assert (kind, name) == ("generator", "dataset.dataset.transforms.0.rng")


def test_the_line_that_sets_it_is_that_of_the_constructor() -> None:
    inheritance = Inheritance()
    inheritance.look(Rows(rng=random.Random(0)), None)
    ((place, drawn),) = [(each.location, each.drawn) for each in inheritance.found(made_here=False)]
    assert place is not None and place.line == Noise.__init__.__code__.co_firstlineno + 1
    assert drawn is None


def of_loader(dataset: Rows) -> tuple[Inherited, ...]:
    """What is seen of a dataset of which a training reads an epoch in its own process."""
    watch = Watch(Run({}, {}), Clock(lambda step: None))
    watch.install()
    try:
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for batch in DataLoader(dataset, batch_size=2):
            model(batch).sum().backward()
            optimizer.step()
        facts = watch._loaders.facts()
    finally:
        watch.remove()
    assert facts is not None
    return facts.inherited


def test_a_generator_that_items_draw_from_is_told_from_one_that_made_the_dataset() -> None:
    assert [each.drawn for each in of_loader(Rows(rng=np.random.default_rng(0)))] == [True]
    assert [each.drawn for each in of_loader(Rows(held=np.random.default_rng(0)))] == [False]


def test_a_file_that_the_first_item_opens_is_none() -> None:
    class Lazy(Rows):
        def __getitem__(self, index: int) -> torch.Tensor:
            self.held = self.held or open(__file__)  # noqa: SIM115  # as datasets do
            return super().__getitem__(index)

    assert of_loader(Lazy()) == ()


def test_a_long_list_of_objects_is_told_with_its_bytes_and_not_kept_alive() -> None:
    rows = Rows(held=[[number, number + 1] for number in range(20_000)])
    inheritance = Inheritance()
    inheritance.look(rows, None)
    (held,) = inheritance.found(made_here=True)
    assert (held.kind, held.name, held.type) == ("objects", "dataset.held", "list")
    assert held.bytes > 20_000 * 50 and held.location is not None and held.location.function == "__init__"
