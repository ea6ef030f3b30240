"""The moment before the first iterator of a loader."""

import threading

import torch
from torch.utils.data import DataLoader, TensorDataset

from advisor.profiles.hooks.loading.first_iterator import FirstIterator

ITEMS = TensorDataset(torch.zeros(2))


def test_it_comes_once_before_anything_is_asked_of_the_sampler() -> None:
    seen: list[str] = []

    class Order(list[int]):
        def __iter__(self):  # type: ignore[no-untyped-def]  # of a list
            seen.append("asked")
            return super().__iter__()

    before = DataLoader.__iter__
    FirstIterator(lambda: seen.append("first")).install()
    loader = DataLoader(ITEMS, sampler=Order([0, 1]))
    assert seen == [] and len(list(loader)) == len(list(loader)) == 2
    assert seen == ["first", "asked", "asked"] and DataLoader.__iter__ is before


def test_a_thread_that_fetches_ahead_does_not_wait() -> None:
    seen: list[str] = []
    FirstIterator(lambda: seen.append("first")).install()
    thread = threading.Thread(target=lambda: list(DataLoader(ITEMS)))
    thread.start()
    thread.join()
    assert seen == []
    list(DataLoader(ITEMS))
    assert seen == ["first"]
