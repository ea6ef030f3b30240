"""Settings of loaders switched within an epoch: what the program is given stays the same."""

import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, Sampler

from advisor.profiles.events import Run
from advisor.profiles.hooks.loading.loader_record import LoaderRecord
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.watch import Watch
from advisor.tuners.knob import Refused, Value
from advisor.tuners.knobs import KNOBS

ITEMS, BATCH = 47, 4
PRESENT: dict[str, Value] = {
    "num_workers": 0, "prefetch_factor": 2, "pin_memory": "off", "persistent_workers": "off",
    "in_order": "on",    "multiprocessing_context": "fork",
}  # fmt: skip
SIZED = PRESENT | {"batch_size": BATCH}
WORKERS = (2, 3, 1, 0)


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> int:
        return index


class Told(Sampler[int]):
    """A sampler of the program, which draws from its random numbers as it goes."""

    def __iter__(self) -> Iterator[int]:
        for index in range(ITEMS):
            yield (index + int(torch.randint(ITEMS, ()))) % ITEMS

    def __len__(self) -> int:
        return ITEMS


class Ragged(Sampler[list[int]]):
    """A batch sampler of the program."""

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, ITEMS, BATCH):
            yield list(range(start, min(start + 1 + start % 3, ITEMS)))


def shuffled(**more: Any) -> DataLoader[int]:
    generator = torch.Generator().manual_seed(3)
    return DataLoader(Numbers(), BATCH, shuffle=True, generator=generator, **more)


def accelerated() -> Any:
    """As accelerate wraps a loader; it holds one batch ahead."""
    accelerate = pytest.importorskip("accelerate")
    return accelerate.Accelerator(cpu=True).prepare(shuffled())


LOADERS: dict[str, Callable[[], DataLoader[int]]] = {
    "in order": lambda: DataLoader(Numbers(), BATCH),
    "shuffled": shuffled,
    "last dropped": lambda: shuffled(drop_last=True),
    "own sampler": lambda: DataLoader(Numbers(), BATCH, sampler=Told()),
    "own batches": lambda: DataLoader(Numbers(), batch_sampler=Ragged()),
    "torch's batches": lambda: DataLoader(
        Numbers(), batch_sampler=BatchSampler(RandomSampler(Numbers()), BATCH, drop_last=False)
    ),
    "no batches": lambda: DataLoader(Numbers(), batch_size=None, shuffle=True),
    "accelerate": accelerated,
    "workers": lambda: shuffled(num_workers=3, prefetch_factor=4),
    "workers that stay": lambda: shuffled(num_workers=2, persistent_workers=True),
}


@pytest.fixture
def run() -> Iterator[Run]:
    run = Run(KNOBS, PRESENT, Refused)
    watch = Watch(run, Clock(lambda step: None), seed=1)
    watch.install()
    run.watch = watch  # type: ignore[attr-defined]
    yield run
    watch.remove()


def steps(loader: DataLoader[int], epochs: int) -> Iterator[tuple[int, list[int]]]:
    """Yields the epoch and the batch after each step."""
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1e-3)
    for epoch in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            (weight * torch.as_tensor(batch)).sum().backward()
            optimizer.step()
            yield epoch, torch.as_tensor(batch).reshape(-1).tolist()


def seen(loader: DataLoader[int], run: Run, configs: Sequence[dict[str, Value]], every: int = 5) -> Any:
    """The batches of two epochs, with a switch to the next configuration after so many steps."""
    epochs: list[list[list[int]]] = [[], []]
    for number, (epoch, batch) in enumerate(steps(loader, 2)):
        epochs[epoch].append(batch)
        if configs and number % every == every - 1:
            run.configure(PRESENT | configs[number // every % len(configs)])
            assert run.refused == {} and run.unanswered() == []
    return epochs, torch.randint(2**30, ()).item()


def unswitched(make: Callable[[], DataLoader[int]]) -> Any:
    torch.manual_seed(1)
    loader = make()
    epochs = [[torch.as_tensor(batch).reshape(-1).tolist() for batch in loader] for _ in range(2)]
    return epochs, torch.randint(2**30, ()).item()


@pytest.mark.parametrize("name", LOADERS)
def test_an_epoch_has_each_sample_once_in_the_samplers_order(name: str, run: Run) -> None:
    make = LOADERS[name]
    expected = unswitched(make)
    torch.manual_seed(1)
    loader = make()
    every = 5 if loader.batch_size or loader.batch_sampler else 20  # steps; as many switches of either
    switched = seen(loader, run, [{"num_workers": workers} for workers in WORKERS], every)
    assert switched[0] == expected[0]
    assert switched[1] == expected[1]  # the program's own random numbers go on as they would have


@pytest.mark.parametrize("name", ["in order", "shuffled", "last dropped", "own sampler", "workers that stay"])
def test_batches_of_another_size_hold_the_samples_that_are_left_once(name: str, run: Run) -> None:
    (expected, random) = unswitched(LOADERS[name])
    torch.manual_seed(1)
    loader = LOADERS[name]()
    length, stepping = len(loader), steps(loader, 2)
    epochs: list[list[list[int]]] = [[], []]
    sizes: dict[int, dict[str, Value]] = {
        1: {"batch_size": 8}, 3: {"batch_size": 3, "num_workers": 2}, 6: {"num_workers": 2}, 7: {},
    }  # fmt: skip
    for number, (epoch, batch) in enumerate(stepping):
        epochs[epoch].append(batch)
        if number in sizes:
            run.configure(SIZED | sizes[number])
            assert run.refused == {} and run.unanswered() == []
    assert [len(batch) for batch in epochs[0][:8]] == [4, 4, 8, 8, 3, 3, 3, 4]
    told, whole = ([index for batch in of for index in batch] for of in (epochs[0], expected[0]))
    dropped = 3 if name == "last dropped" else 0  # what a whole batch of the program's own cannot be made of
    assert told == whole[: len(told)] and len(told) >= ITEMS - 2 * dropped
    assert dropped or len(told) == ITEMS
    assert epochs[1] == expected[1] and len(loader) == length
    assert torch.randint(2**30, ()).item() == random


def test_the_next_epochs_have_the_size_of_the_switch_and_a_program_its_own_where_it_makes_batches(
    run: Run,
) -> None:
    loader = shuffled()
    stepping = steps(loader, 2)
    next(stepping)
    run.configure(SIZED | {"batch_size": 10})
    assert loader.batch_size == 10 and len(loader) == 5
    assert [len(batch) for epoch, batch in stepping if epoch] == [10, 10, 10, 10, 7]
    run.configure(SIZED)
    assert loader.batch_size == BATCH and [len(batch) for _, batch in steps(loader, 1)][:11] == [BATCH] * 11


def test_a_batch_sampler_of_the_program_keeps_its_sizes(run: Run) -> None:
    loader = LOADERS["own batches"]()
    sizes = [len(batch) for batch in loader]
    stepping = steps(loader, 1)
    next(stepping)
    run.configure(PRESENT | {"batch_size": 10})
    assert "batch_size" in run.refused
    assert [len(batch) for _, batch in stepping] == sizes[1:]


def test_workers_are_as_many_as_asked_for_and_end_with_the_epoch(run: Run) -> None:
    loader = shuffled()
    stepping = steps(loader, 2)
    next(stepping)
    run.configure(PRESENT | {"num_workers": 2, "prefetch_factor": 4})
    assert run.applied == {"num_workers", "prefetch_factor"} and loader.num_workers == 2
    (iterated,) = run.watch._loaders.switching.iterated.values()  # type: ignore[attr-defined]
    workers = iterated.successor._workers
    assert len(workers) == 2 and iterated.successor._prefetch_factor == 4
    assert next(epoch for epoch, _ in stepping if epoch)
    assert not any(worker.is_alive() for worker in workers)
    run.configure(PRESENT)
    assert loader.num_workers == 0 and loader.prefetch_factor is None
    assert [epoch for epoch, _ in stepping] == [1] * (ITEMS // BATCH)


def test_workers_that_live_on_are_those_of_the_switch(run: Run) -> None:
    stepping = steps(shuffled(), 3)
    next(stepping)
    run.configure(PRESENT | {"num_workers": 1, "persistent_workers": "on"})
    (iterated,) = run.watch._loaders.switching.iterated.values()  # type: ignore[attr-defined]
    (worker,) = iterated.successor._workers
    assert next(epoch for epoch, _ in stepping if epoch == 2) and worker.is_alive()
    run.configure(PRESENT)
    assert not worker.is_alive()
    assert len(list(stepping)) == ITEMS // BATCH


def test_batches_that_come_as_they_are_ready_come_once(run: Run) -> None:
    configs: list[dict[str, Value]] = [{"num_workers": 3, "in_order": "off"}, {"num_workers": 2}]
    epochs, _ = seen(shuffled(), run, configs)
    assert [sorted(each for batch in epoch for each in batch) for epoch in epochs] == [list(range(ITEMS))] * 2


def test_an_epoch_that_is_left_early_leaves_no_workers(run: Run) -> None:
    stepping = steps(shuffled(), 1)
    next(stepping)
    run.configure(PRESENT | {"num_workers": 2})
    (iterated,) = run.watch._loaders.switching.iterated.values()  # type: ignore[attr-defined]
    workers = iterated.successor._workers
    del iterated
    stepping.close()  # type: ignore[attr-defined]
    assert not any(worker.is_alive() for worker in workers)


def test_a_loader_for_each_epoch_is_made_as_asked_for(run: Run) -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1e-3)
    made = []
    for epoch in range(3):
        loader = DataLoader(Numbers(), BATCH)
        made.append(loader.num_workers)
        for number, batch in enumerate(loader):
            (weight * batch).sum().backward()
            optimizer.step()
            if (epoch, number) == (0, 2):
                run.configure(PRESENT | {"num_workers": 1})
            if (epoch, number) == (1, 2):
                run.configure(PRESENT)
    assert made == [0, 1, 0]


def test_an_evaluation_keeps_its_loader(run: Run) -> None:
    evaluation = DataLoader(Numbers(), BATCH)
    stepping = steps(shuffled(), 1)
    next(stepping)
    run.configure(PRESENT | {"num_workers": 1})
    assert evaluation.num_workers == 0
    assert DataLoader(Numbers(), BATCH).num_workers == 0
    stepping.close()  # type: ignore[attr-defined]


def test_starting_is_timed_apart(run: Run) -> None:
    switching = run.watch._loaders.switching  # type: ignore[attr-defined]
    stepping = steps(shuffled(), 1)
    next(stepping)
    assert switching.start_ns == 0
    run.configure(PRESENT | {"num_workers": 1})
    next(stepping)
    started = switching.start_ns
    assert started > 0 and next(stepping) and switching.start_ns == started
    run.configure(PRESENT | {"num_workers": 1})
    next(stepping)
    assert switching.start_ns == started  # nothing was switched


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(ITEMS))


class Sharded(DataLoader[int]):
    def __iter__(self) -> Any:
        return super().__iter__()


class Counting(Told):
    def state_dict(self) -> dict[str, int]:
        return {}


class Reading(Numbers):
    def __init__(self) -> None:
        self.file = io.BytesIO()


@pytest.mark.parametrize(
    "make, reason",
    [
        (lambda: DataLoader(Endless(), BATCH), "its dataset is iterable"),
        (lambda: Sharded(Numbers(), BATCH), "Sharded makes iterators of its own"),
        (lambda: DataLoader(Numbers(), BATCH, sampler=Counting()), "Counting keeps count"),
        (lambda: DataLoader(Reading(), BATCH), "dataset.file is an open file"),
        (lambda: DataLoader(torch.utils.data.Subset(Reading(), range(9)), BATCH), "dataset.file is an open"),
        (shuffled, None),
    ],
)
def test_what_cannot_go_on_elsewhere_is_told_apart(make: Any, reason: str | None, run: Run) -> None:
    loader = make()
    stepping = steps(loader, 1)
    next(stepping)
    facts = run.watch._loaders.facts()  # type: ignore[attr-defined]
    assert (facts.fixed or "").startswith(reason or "") and (facts.fixed is None) is (reason is None)


def test_of_batches_fetched_by_a_thread_is_told(run: Run) -> None:
    from concurrent.futures import ThreadPoolExecutor

    loader = shuffled()
    stepping = steps(loader, 1)
    next(stepping)
    iterator = iter(loader)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(next, iterator).result()
    facts = run.watch._loaders.facts()  # type: ignore[attr-defined]
    assert facts.fixed == "a thread of the program fetches its batches"


def test_what_is_fixed_is_left_alone(run: Run) -> None:
    loader = Sharded(Numbers(), BATCH)
    stepping = steps(loader, 1)
    next(stepping)
    run.configure(PRESENT | {"num_workers": 2})
    assert loader.num_workers == 0 and run.unanswered() == ["num_workers"]


def test_data_pipes_are_told_apart() -> None:
    from torch.utils.data.datapipes.map import SequenceWrapper

    loader: DataLoader[int] = DataLoader(SequenceWrapper(range(5)))
    record = LoaderRecord(loader, {"dataset": loader.dataset}, 0, None, None)
    assert record.fixed is not None and "data pipe" in record.fixed
