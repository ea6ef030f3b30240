"""Loaders that were made before the taps, and loops that say themselves where a step ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, TensorDataset, WeightedRandomSampler

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import LoaderFacts
from advisor.profiles.hooks.imports import after_import, forget, waiting
from advisor.profiles.hooks.model.owners import is_optimized
from advisor.profiles.hooks.step.clock import Clock, Step
from advisor.profiles.hooks.watch import Watch

ITEMS = TensorDataset(torch.ones(32, 2))


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.ones(32, 2))


@contextmanager
def watching() -> Iterator[Watch]:
    watch = Watch(Run({}, {}), Clock(lambda step: None))
    watch.install()
    try:
        yield watch
    finally:
        watch.remove()


def facts_of(watch: Watch) -> LoaderFacts:
    facts = watch._loaders.facts()
    assert facts is not None
    of_items = ("item_ms", "collate_ms", "cpu_share", "item_p99_ms")
    timed = (*of_items, "worker_start_ms", "epoch_wall_s", "first_draw_ms")
    unknown: dict[str, Any] = dict.fromkeys(timed)
    return replace(facts, construct_ms=None, location=None, epoch_wait_ms=(), **unknown)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"batch_size": 4, "shuffle": True, "drop_last": True},
        {"batch_size": None},
        {"sampler": WeightedRandomSampler([1.0] * 32, 32), "batch_size": 8},
        {"sampler": RandomSampler(ITEMS, replacement=True), "batch_size": 8},
        {"batch_sampler": [[0, 1], [2, 3]]},
        {"num_workers": 1, "prefetch_factor": 4, "persistent_workers": True, "batch_size": 16},
        {"num_workers": 1, "multiprocessing_context": "fork", "batch_size": 16},
        {"dataset": Stream(), "batch_size": 4},
    ],
    ids=lambda arguments: "-".join(arguments) or "defaults",
)
def test_a_loader_made_before_is_described_like_one_made_later(arguments: dict[str, Any]) -> None:
    given: dict[str, Any] = {"dataset": ITEMS, **arguments}
    before = DataLoader(**given)
    with watching() as watch:
        for _ in before:
            pass
        unseen = facts_of(watch)
    with watching() as watch:
        for _ in DataLoader(**given):
            pass
        assert facts_of(watch) == unseen


def test_two_loaders_made_before_are_not_taken_for_one() -> None:
    training, evaluation = DataLoader(ITEMS), DataLoader(TensorDataset(torch.ones(8, 2)))
    with watching() as watch:
        for loader in (training, evaluation):
            for _ in loader:
                pass
        assert [record.batches for record in watch.loaders()] == [32, 8]
        assert facts_of(watch).constructed == 1


def test_an_iterator_in_use_counts_once_it_is_adopted() -> None:
    loader = DataLoader(ITEMS, batch_size=4)
    batches = iter(loader)
    other = iter(DataLoader(TensorDataset(torch.ones(8, 2))))  # whose loader is gone
    with watching() as watch:
        watch.adopt()
        next(other)
        next(batches)
        next(batches)
        assert [(record.batches, record.epochs) for record in watch.loaders()] == [(2, 0)]


def test_a_loader_made_before_is_not_kept_alive() -> None:
    import weakref

    with watching() as watch:
        loader = DataLoader(ITEMS)
        alive = weakref.ref(loader)
        for _ in loader:
            pass
        del loader, _
        assert alive() is None and watch.loaders()


def ticking() -> tuple[Clock, list[Step]]:
    steps: list[Step] = []
    return Clock(steps.append), steps


def test_marks_of_the_program_close_steps_where_nothing_else_does() -> None:
    clock, steps = ticking()
    for _ in range(3):
        clock.batch_delivered()
        clock.forward_done()
        clock.mark()
    assert [step.kind for step in steps] == ["manual"] * 3 and clock.steps == 3


@pytest.mark.parametrize("kind", ["backward", "optimizer"])
def test_marks_count_no_more_once_something_stronger_was_seen(kind: str) -> None:
    clock, steps = ticking()
    clock.mark()
    for _ in range(2):
        if kind == "backward":
            clock.backward_done()
        else:
            clock.begin_update()
            clock.end_update(clock)
        clock.mark()
    assert [step.kind for step in steps] == ["manual", kind, kind] and clock.steps == 2


def test_marks_count_while_an_optimizer_is_waited_for() -> None:
    clock, steps = ticking()
    clock.expect("optimizer")
    clock.backward_done()
    clock.mark()
    assert [step.kind for step in steps] == ["manual"]


def test_an_optimizer_is_found_by_what_it_updates() -> None:
    model, other = nn.Linear(2, 1), nn.Linear(2, 1)
    sgd = torch.optim.SGD(model.parameters())
    assert is_optimized([other, model]) and not is_optimized([other])
    del sgd


def test_waiting_for_an_import_can_be_ended() -> None:
    others = waiting()
    after_import("a_module_that_never_comes", lambda module: None)
    (ours,) = [each for each in waiting() if each not in others]
    forget([ours])
    assert waiting() == others
