"""A dataset that keeps its items behaves as the one it stands for."""

import copy
import pickle
import random
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

from advisor.tuners.mechanisms.cached_items import CachedItems, glance, has_changed, keep_nothing, look, same

ROOM = 2**20
Pair = namedtuple("Pair", ["left", "right"])


class Rows(Dataset[torch.Tensor]):
    """Rows of numbers; every reading is noted."""

    def __init__(self, length: int = 4) -> None:
        self.rows = torch.arange(3.0 * length).reshape(length, 3)
        self.reads: list[Any] = []
        self.scale = 1.0

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> torch.Tensor:
        self.reads.append(index)
        return self.rows[index] * self.scale

    def double(self) -> None:
        self.scale *= 2


class Batched(Rows):
    """Offers several items at once."""

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        self.reads.append(tuple(indices))
        return [self.rows[index] * self.scale for index in indices]


def test_each_item_is_read_once_and_stays_the_same() -> None:
    rows = Rows()
    cached = CachedItems(rows, ROOM)
    for _ in range(3):
        assert [cached[index].tolist() for index in range(4)] == rows.rows.tolist()
    assert rows.reads == [0, 1, 2, 3]


def test_whoever_changes_an_item_changes_no_later_one() -> None:
    cached = CachedItems(Rows(), ROOM)
    for _ in range(3):
        item = cached[1]
        assert item.tolist() == [3.0, 4.0, 5.0]
        item.zero_()


def test_a_dataset_that_uses_the_memory_of_an_item_again_is_no_trap() -> None:
    class Reusing(Rows):
        def __getitem__(self, index: Any) -> torch.Tensor:
            buffer: torch.Tensor = self.__dict__.setdefault("buffer", torch.empty(3))
            return buffer.copy_(self.rows[index])

    cached = CachedItems(Reusing(), ROOM)
    for _ in range(2):
        assert [cached[index].tolist()[0] for index in range(4)] == [0.0, 3.0, 6.0, 9.0]


def test_several_items_at_once_are_read_as_far_as_they_are_missing() -> None:
    rows = Batched()
    cached = CachedItems(rows, ROOM)
    assert [item.tolist()[0] for item in cached.__getitems__([2, 0])] == [6.0, 0.0]
    assert [item.tolist()[0] for item in cached.__getitems__([0, 1, 2, 3])] == [0.0, 3.0, 6.0, 9.0]
    assert [item.tolist()[0] for item in cached.__getitems__([3, 3])] == [9.0, 9.0]
    assert rows.reads == [(2, 0), (1, 3)]


def test_a_dataset_without_several_items_at_once_gets_none() -> None:
    assert not hasattr(CachedItems(Rows(), ROOM), "__getitems__")


def test_a_real_loader_over_it_delivers_what_the_dataset_would() -> None:
    for rows in (Rows(8), Batched(8)):
        cached: Any = CachedItems(rows, ROOM)
        expected = [batch.tolist() for batch in DataLoader(rows, batch_size=3)]
        for _ in range(2):
            assert [batch.tolist() for batch in DataLoader(cached, batch_size=3)] == expected


def test_a_subset_of_it_finds_its_items() -> None:
    subset: Subset[Any] = Subset(CachedItems(Batched(), ROOM), [3, 1])  # type: ignore[arg-type]
    assert [batch.tolist() for batch in DataLoader(subset, batch_size=2)] == [[[9, 10, 11], [3, 4, 5]]]


def test_it_answers_as_the_dataset_itself() -> None:
    rows = Rows()
    cached: Any = CachedItems(rows, ROOM)
    assert isinstance(cached, Rows) and not isinstance(cached, Batched)
    assert len(cached) == 4 and cached.scale == 1.0 and cached.rows is rows.rows
    with pytest.raises(AttributeError, match="nothing"):
        _ = CachedItems(rows, ROOM).nothing


def test_an_attribute_that_is_set_reaches_the_dataset_and_all_is_read_again() -> None:
    rows = Rows()
    cached: Any = CachedItems(rows, ROOM)
    assert cached[1].tolist() == [3.0, 4.0, 5.0]
    cached.scale = 2.0
    assert rows.scale == 2.0
    assert cached[1].tolist() == [6.0, 8.0, 10.0]


def test_a_length_that_is_missing_is_missing_still() -> None:
    class Endless:
        def __getitem__(self, index: int) -> int:
            return index

    with pytest.raises(TypeError):
        len(CachedItems(Endless(), ROOM))


def test_unusual_indices_go_to_the_dataset() -> None:
    cached = CachedItems(Rows(), ROOM)
    assert cached[1:3].shape == (2, 3)
    assert cached[torch.tensor(2)].tolist() == [6.0, 7.0, 8.0]
    assert cached[np.int64(1)].tolist() == cached[1].tolist()
    assert [item.tolist() for item in cached] == Rows().rows.tolist()


def test_names_are_indices_too() -> None:
    rows = {"first": torch.ones(2)}
    cached = CachedItems(rows, ROOM)
    assert cached["first"].tolist() == cached["first"].tolist() == [1.0, 1.0]


def test_what_does_not_fit_is_read_every_time() -> None:
    rows = Rows()
    cached = CachedItems(rows, 2 * (512 + 12))
    for _ in range(2):
        for index in range(4):
            assert cached[index].tolist() == rows.rows[index].tolist()
    assert rows.reads == [0, 1, 2, 3, 2, 3]


def test_what_cannot_be_copied_is_read_every_time() -> None:
    class Objects(Rows):
        def __getitem__(self, index: Any) -> Any:
            self.reads.append(index)
            return object()

    rows = Objects()
    cached = CachedItems(rows, ROOM)
    assert cached[0] is not cached[0]
    assert rows.reads == [0, 0]


@pytest.mark.parametrize("again", [lambda each: pickle.loads(pickle.dumps(each)), copy.copy])
def test_a_pickled_copy_works_and_begins_with_nothing(again: Callable[[Any], Any]) -> None:
    cached = CachedItems(Batched(), ROOM)
    first = cached[1]
    other = again(cached)
    assert type(other) is CachedItems and len(other) == 4
    assert torch.equal(other[1], first)
    assert [item.tolist()[0] for item in other.__getitems__([0])] == [0.0]


def test_items_of_many_forms_come_back_as_they_were() -> None:
    item = {
        "image": torch.rand(2, 3, 3),
        "array": np.arange(4, dtype=np.int16),
        "parts": [Pair(1, 2.5), (None, "text", b"raw"), {"deep": np.float32(3)}],
        "half": torch.ones(2, dtype=torch.bfloat16),
        "scalar": torch.tensor(float("nan")),
    }
    cached = CachedItems([item], ROOM)
    first, second = cached[0], cached[0]
    assert first is item and second is not item
    assert same(second, item)
    second["array"][0] = 7
    second["image"].zero_()
    assert same(cached[0], item)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.ones(2), torch.zeros(2)),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (np.ones(2), np.ones((2, 1))),
        (1, 1.0),
        ([1, 2], [1, 2, 3]),
        ({"a": 1}, {"b": 1}),
        ("text", "texts"),
        (torch.tensor([float("nan"), 1.0]), torch.tensor([float("nan"), 2.0])),
    ],
)
def test_items_that_differ_are_told_apart(one: Any, other: Any) -> None:
    assert not same(one, other)


def test_no_number_equals_itself() -> None:
    assert same(
        [float("nan"), torch.tensor([float("nan"), 1.0])], [float("nan"), torch.tensor([float("nan"), 1.0])]
    )


def test_a_look_reads_two_items_and_says_how_large_they_are() -> None:
    seen = look(Rows())
    assert [item.tolist()[0] for item in seen.items.values()] == [0.0, 9.0]
    assert seen.item_bytes == 512 + 12


def items_made_by(make: Callable[[int], Any], kind: type[Rows] = Rows) -> Rows:
    class Made(kind):  # type: ignore[misc, valid-type]
        def __getitem__(self, index: Any) -> Any:
            return make(index)

    rows: Rows = Made()
    return rows


@pytest.mark.parametrize(
    "draw", [lambda: torch.rand(1), random.random, np.random.rand], ids=["torch", "python", "numpy"]
)
def test_random_items_are_found_although_two_readings_may_agree(draw: Callable[[], Any]) -> None:
    def flipped_or_not(index: int) -> int:
        draw()
        return index

    with pytest.raises(ValueError, match="random numbers"):
        look(items_made_by(flipped_or_not))


def test_random_items_of_a_generator_of_their_own_differ() -> None:
    generator = np.random.default_rng(0)
    with pytest.raises(ValueError, match="two reads of item 0 differ"):
        look(items_made_by(lambda index: float(generator.random())))


def test_items_that_depend_on_what_was_read_before_differ() -> None:
    class Counting(Rows):
        count = 0

        def __getitem__(self, index: Any) -> Any:
            self.count += 1
            return self.count

    rows = Counting()
    with pytest.raises(ValueError, match="two reads of item 0 differ"):
        look(rows)
    assert rows.count == 0


def test_random_numbers_go_on_after_a_look_as_without_it() -> None:
    torch.manual_seed(3)
    random.seed(3)
    with pytest.raises(ValueError):
        look(items_made_by(lambda index: torch.rand(1) + random.random()))
    seen = float(torch.rand(1)), random.random()
    torch.manual_seed(3)
    random.seed(3)
    assert seen == (float(torch.rand(1)), random.random())


def fail(index: int) -> Any:
    raise FileNotFoundError(index)


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [
        (items_made_by(lambda index: object()), "item 0 holds an object of type object"),
        (items_made_by(lambda index: [torch.ones(2, requires_grad=True)]), "outside ordinary memory"),
        (items_made_by(fail), "could not be read ahead: FileNotFoundError"),
        (iter([1]), "has no length"),
        ([], "is empty"),
    ],
)
def test_items_that_cannot_be_kept_are_answered_with_the_reason(dataset: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        look(dataset)


def test_several_items_at_once_must_be_those_of_single_indices() -> None:
    class Padded(Rows):
        def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
            return [torch.cat([self.rows[index], torch.zeros(len(indices))]) for index in indices]

    with pytest.raises(ValueError, match="__getitems__"):
        look(Padded())


def test_what_a_dataset_opens_at_its_first_item_is_not_left_open_in_it() -> None:
    class Opening(Rows):
        file: Any = None

        def __getitem__(self, index: Any) -> torch.Tensor:
            if self.file is None:
                self.file = object()
            return super().__getitem__(index)

    rows = Opening()
    look(rows)
    assert rows.file is None


def a_looked_at(rows: Rows) -> CachedItems:
    return CachedItems(rows, ROOM, look(rows).items)


def test_items_that_the_program_changes_later_are_noticed() -> None:
    rows = Rows()
    cached = a_looked_at(rows)
    assert cached[3].tolist() == [9.0, 10.0, 11.0]
    assert not has_changed(cached)
    rows.double()
    assert has_changed(cached)
    keep_nothing(cached)
    assert cached[3].tolist() == cached[3].tolist() == [18.0, 20.0, 22.0]


def test_items_that_cannot_be_read_any_more_have_changed() -> None:
    rows = Rows()
    cached = a_looked_at(rows)
    rows.rows = torch.empty(0, 3)
    assert has_changed(cached)


def test_a_generator_of_items_is_walked_as_ever() -> None:
    class Walking(Rows):
        def __iter__(self) -> Iterator[str]:
            return iter("ab")

    assert list(CachedItems(Walking(), ROOM)) == ["a", "b"]


def test_reading_ahead_opens_nothing_in_datasets_inside_and_ends_in_a_circle() -> None:
    class Opening(Rows):
        def __getitem__(self, index: Any) -> torch.Tensor:
            self.opened = True
            return super().__getitem__(index)

    rows = Opening()
    outer: Dataset[Any] = Subset(ConcatDataset([rows, rows]), range(8))
    vars(outer)["itself"] = outer
    assert glance(outer).keys() == {0, 7} and look(outer).items.keys() == {0, 7}
    assert not hasattr(rows, "opened") and vars(outer)["itself"] is outer


def test_a_glance_gives_the_same_random_numbers_each_time_and_takes_none() -> None:
    class Drawing(Rows):
        def __getitem__(self, index: Any) -> torch.Tensor:
            return torch.rand(2) + random.random() + float(np.random.rand())

    states = [random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()]
    one, other = glance(Drawing()), glance(Drawing())
    assert all(same(one[index], other[index]) for index in (0, 3)) and not same(one[0], one[3])
    assert states == [random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()]
