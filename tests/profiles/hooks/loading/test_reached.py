"""What functions that make items reach by name."""

import random
from collections.abc import Callable
from typing import Any

from torch.utils.data import Dataset

from advisor.profiles.hooks.loading.inheritance import Inheritance

RNG = random.Random(3)
UNUSED = random.Random(4)


def moved(value: int) -> int:
    return value + RNG.randrange(3)


class Moved(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return self.of(index)

    def of(self, index: int) -> int:
        return moved(index)

    def report(self) -> float:
        return UNUSED.random()


class Kept(Dataset[int]):
    def __init__(self, function: Callable[[int], int]) -> None:
        self.function = function

    def __getitem__(self, index: int) -> int:
        return self.function(index)


def found(dataset: Any, collate: Any = None) -> list[tuple[str, str]]:
    inheritance = Inheritance()
    inheritance.look(dataset, collate)
    return [(each.name, each.type) for each in inheritance.found(made_here=False)]


def test_a_generator_beside_the_dataset_is_found_through_methods_and_functions() -> None:
    inheritance = Inheritance()
    inheritance.look(Moved(), None)
    (only,) = inheritance.found(made_here=False)
    assert (only.kind, only.name, only.type) == ("generator", "RNG", "random.Random")
    assert only.location is not None
    assert open(__file__).read().splitlines()[only.location.line - 1].startswith("RNG =")  # noqa: SIM115


def test_one_that_no_item_uses_is_none() -> None:
    assert "UNUSED" not in [name for name, _ in found(Moved())]


def test_variables_around_a_function_and_a_function_that_joins_items_count() -> None:
    own = random.Random(5)
    assert ("own", "random.Random") in found(Kept(lambda value: value + own.randrange(2)))
    assert found(Kept(abs), moved) == [("RNG", "random.Random")]


def test_whether_it_was_drawn_from_is_seen_in_items_made_here() -> None:
    inheritance = Inheritance()
    inheritance.look(Moved(), None)
    assert [each.drawn for each in inheritance.found(made_here=True)] == [False]
    Moved()[0]
    assert [each.drawn for each in inheritance.found(made_here=True)] == [True]


def test_one_that_each_worker_makes_anew_first_is_left_out() -> None:
    def anew(worker: int) -> None:
        RNG.seed(worker)

    inheritance = Inheritance()
    inheritance.look(Moved(), None)
    assert inheritance.found(made_here=False, worker_init=anew) == ()
    assert len(inheritance.found(made_here=False, worker_init=lambda worker: None)) == 1
