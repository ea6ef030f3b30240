"""What is seen of the loaders of a program that trains."""

import gc
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import LoaderFacts
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.watch import Watch


class Watched:
    """A watched program with one model; what it trains on is the test's."""

    def __init__(self, **clock: Any) -> None:
        self.pause_s = 0.0
        self.watch = Watch(Run({}, {}), Clock(lambda step: time.sleep(self.pause_s), **clock))
        self.watch.install()
        self.loaders = self.watch._loaders
        self.model = nn.Linear(2, 1)
        self.sgd = torch.optim.SGD(self.model.parameters(), lr=0.0)

    def train(self, batches: Any) -> None:
        for batch in batches:
            self.model(batch).mean().backward()
            self.sgd.step()

    def evaluate(self, batches: Any) -> None:
        self.model.eval()
        with torch.no_grad():
            for batch in batches:
                self.model(batch)
        self.model.train()

    @property
    def facts(self) -> LoaderFacts:
        facts = self.loaders.facts()
        assert facts is not None
        return facts


@pytest.fixture
def program() -> Iterator[Watched]:
    program = Watched()
    yield program
    program.watch.remove()


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """A watched program to which time passes only where somebody sleeps."""
    now_ns = [0]

    def sleep(seconds: float) -> None:
        now_ns[0] += round(1e9 * seconds)

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now_ns[0])
    program = Watched(wall_ns=lambda: now_ns[0])
    yield program
    program.watch.remove()


class Items(Dataset[torch.Tensor]):
    """Rows of two ones; slow ones wait."""

    def __init__(self, length: int = 8, wait_s: float = 0.0) -> None:
        self.length = length
        self.wait_s = wait_s

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.wait_s)
        return torch.ones(2)


class Counting(Items):
    """Counts readings, which is no change that the program makes between epochs."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = self.readings = 0

    def __getitem__(self, index: int) -> torch.Tensor:
        self.readings += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_program_changes_about_its_dataset_between_epochs_is_told(
    program: Watched, workers: int
) -> None:
    items = Counting()
    loader = DataLoader(items, batch_size=4, num_workers=workers)
    for _ in range(2):
        program.train(loader)
    assert program.facts.dataset_changes is None
    items.epoch = 1
    program.train(loader)
    assert program.facts.dataset_changes == "dataset.epoch"


def test_loaders_made_anew_for_each_epoch_are_seen_as_one(program: Watched) -> None:
    for _ in range(3):
        program.train(DataLoader(Items(10), batch_size=4))
    facts = program.facts
    assert (facts.constructed, facts.epochs_started, facts.dataset) == (3, 3, 0)
    assert len(facts.epoch_wait_ms) == 3 and facts.construct_ms is not None and facts.construct_ms > 0
    assert program.loaders.samples_in_steps() == 30


def test_a_loader_that_is_used_again_was_constructed_once(program: Watched) -> None:
    loader = DataLoader(Items(8), batch_size=4)
    for _ in range(3):
        program.train(loader)
    facts = program.facts
    assert (facts.constructed, facts.epochs_started, len(facts.epoch_wait_ms)) == (1, 3, 3)
    assert program.loaders.samples_in_steps() == 24


def a_loader(dataset: Dataset[Any], **options: Any) -> DataLoader[Any]:
    """One line makes all loaders of a program."""
    return DataLoader(dataset, batch_size=4, **options)


def test_a_validation_loader_of_the_same_line_is_no_training_loader(program: Watched) -> None:
    train, validation = a_loader(Items(8), shuffle=True), a_loader(Items(12))
    for _ in range(3):
        program.train(train)
        program.evaluate(validation)
    program.train(train)
    facts = program.facts
    assert (facts.constructed, facts.shuffle, facts.epochs_started, facts.dataset_length) == (1, True, 4, 8)
    assert program.loaders.samples_in_steps() == 32


def test_loaders_used_side_by_side_are_not_made_anew(program: Watched) -> None:
    domains = [a_loader(Items(8)) for _ in range(3)]
    for batches in zip(*domains, strict=True):
        program.train([torch.cat(batches)])
    assert program.facts.constructed == 1
    assert program.loaders.samples_in_steps() == 24


def test_accumulated_batches_all_belong_to_the_step(program: Watched) -> None:
    for place, batch in enumerate(DataLoader(Items(8), batch_size=2)):
        program.model(batch).mean().backward()
        if place % 2:
            program.sgd.step()
    assert program.loaders.samples_in_steps() == 8


@pytest.mark.parametrize("validated", [False, True])
def test_evaluating_on_the_batches_of_training_uses_none_for_a_step(
    program: Watched, validated: bool
) -> None:
    loader, validation = DataLoader(Items(8), batch_size=4), DataLoader(Items(12), batch_size=4)
    program.evaluate(loader)
    for _ in range(3):
        program.train(loader)
        program.evaluate(loader)
        if validated:
            program.evaluate(validation)
    program.train(loader)
    assert program.loaders.samples_in_steps() == 4 * 8
    assert program.facts.dataset == 0


def test_batches_accumulated_over_the_end_of_an_epoch_belong_to_the_step(program: Watched) -> None:
    loader = DataLoader(Items(12), batch_size=4)
    for _ in range(2):
        for batch in loader:
            program.model(batch).mean().backward()
    program.sgd.step()
    assert program.loaders.samples_in_steps() == 24


def test_two_batches_of_two_iterators_belong_to_one_step(program: Watched) -> None:
    loader = DataLoader(Items(12), batch_size=4)
    for _ in range(3):
        program.train([torch.cat([next(iter(loader)), next(iter(loader))])])
    assert program.loaders.samples_in_steps() == 24


def test_an_epoch_takes_the_program_s_own_time(timed: Watched) -> None:
    timed.pause_s = 0.5
    loader = DataLoader(Items(8, wait_s=0.002), batch_size=4)
    for _ in range(3):
        timed.train(loader)
    facts = timed.facts
    assert facts.epoch_wall_s == pytest.approx(0.016)  # and 1 in pauses
    assert facts.epoch_wait_ms == pytest.approx([8.0] * 3)


def test_a_single_epoch_ends_with_its_last_batch(timed: Watched) -> None:
    timed.train(DataLoader(Items(8, wait_s=0.002), batch_size=4))
    assert timed.facts.epoch_wall_s == pytest.approx(0.016)


def test_an_unfinished_epoch_has_no_length(program: Watched) -> None:
    program.train([next(iter(DataLoader(Items(8), batch_size=4)))])
    facts = program.facts
    assert (facts.epoch_wall_s, facts.epoch_wait_ms, facts.worker_start_ms) == (None, (), None)


def test_starting_workers_is_told_apart_from_waiting(program: Watched) -> None:
    program.train(DataLoader(Items(24), batch_size=4, num_workers=1))
    started = program.facts.worker_start_ms
    assert started is not None and started > 2


def test_without_workers_an_epoch_starts_at_once(timed: Watched) -> None:
    timed.train(DataLoader(Items(24, wait_s=0.01), batch_size=4))
    assert timed.facts.worker_start_ms == 0.0  # what a batch waits for is no start


class Late:
    """A sampler that draws all numbers before it gives the first."""

    def __len__(self) -> int:
        return 24

    def __iter__(self) -> Iterator[int]:
        time.sleep(0.02)
        return iter(list(range(24)))


@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_sampler_does_before_the_first_batch_is_timed_in_each_epoch(
    program: Watched, workers: int
) -> None:
    loader = DataLoader(Items(24), batch_size=4, sampler=Late(), num_workers=workers)
    for _ in range(2):
        program.train(loader)
    facts = program.facts
    assert facts.first_draw_ms is not None and 20 <= facts.first_draw_ms < 1000 * 0.02 * 24
    assert facts.sampler_type == "Late"
    assert facts.sampler_line is not None and facts.sampler_line.function == "__iter__"


def test_with_workers_that_live_on_each_epoch_is_timed(program: Watched) -> None:
    loader = DataLoader(Items(24), batch_size=4, sampler=Late(), num_workers=1, persistent_workers=True)
    for _ in range(2):
        program.train(loader)
    assert len(program.loaders.records[0].first_draws.spent_ns) == 2


def test_an_ordinary_order_is_no_line_of_the_programs(program: Watched) -> None:
    program.train(DataLoader(Items(24), batch_size=4, shuffle=True))
    facts = program.facts
    assert (facts.sampler_type, facts.sampler_line) == ("RandomSampler", None)
    assert facts.first_draw_ms is not None


def test_a_first_step_that_takes_longer_is_told_without_waits_and_pauses(timed: Watched) -> None:
    timed.pause_s = 0.02
    for _ in range(3):
        for place, batch in enumerate(DataLoader(Items(16, wait_s=0.002), batch_size=4)):
            timed.train([batch])
            time.sleep(0.001 if place else 0.1)
    first = timed.facts.first_step_ms
    assert first is not None and 90 < first < 400


def test_a_single_epoch_tells_nothing_of_first_steps(program: Watched) -> None:
    program.train(DataLoader(Items(16), batch_size=4))
    assert program.facts.first_step_ms is None


def test_datasets_made_anew_do_not_stay_in_memory(program: Watched) -> None:
    alive = []
    for _ in range(3):
        dataset = TensorDataset(torch.ones(8, 2))
        alive.append(weakref.ref(dataset))
        program.train(batch for (batch,) in DataLoader(dataset, batch_size=4))
        del dataset
    gc.collect()
    assert [dataset() is None for dataset in alive] == [True, True, False]  # the last may be probed
    assert program.facts.dataset_length == 8


def test_a_dataset_that_is_used_again_keeps_its_number(program: Watched) -> None:
    first, second, rows = Items(8), Items(8), [torch.ones(2)] * 8
    for dataset in (first, second, rows, first, rows):
        DataLoader(dataset, batch_size=4)  # type: ignore[arg-type]  # a list will do
    assert [record.ordinal for record in program.watch.loaders()] == [0, 1, 2, 0, 2]


def test_items_are_timed_as_the_program_fetches_them(program: Watched) -> None:
    program.train(DataLoader(Items(24, wait_s=0.002), batch_size=4))
    program.loaders.probe()
    facts = program.facts
    assert facts.item_ms is not None and facts.item_p99_ms is not None
    assert 2 <= facts.item_ms <= facts.item_p99_ms
    assert facts.transport_ms is not None and facts.item_read_bytes is not None


@pytest.mark.parametrize("form", [tuple, list])
def test_items_that_come_as_tensors_of_all_of_them_share_their_time(timed: Watched, form: Any) -> None:
    class Columns(Items):
        def __getitems__(self, indices: list[int]) -> Any:
            time.sleep(0.2)
            return form((torch.ones(len(indices), 2), torch.zeros(len(indices))))

    loader = DataLoader(Columns(100), batch_size=20, collate_fn=lambda columns: columns)
    timed.train(rows for rows, _ in loader)
    assert timed.facts.item_ms == pytest.approx(10.0)


def test_the_first_batch_is_no_slow_item(timed: Watched) -> None:
    class Opening(Items):
        def __getitem__(self, index: int) -> torch.Tensor:
            time.sleep(0.0 if self.wait_s else 0.5)
            self.wait_s = 1.0
            return torch.ones(2)

    timed.train(DataLoader(Opening(64), batch_size=4))
    assert timed.facts.item_p99_ms is not None and timed.facts.item_p99_ms < 400


def test_items_of_workers_are_timed_by_the_probe(program: Watched) -> None:
    program.train(DataLoader(Items(24, wait_s=0.02), batch_size=4, num_workers=1))
    assert program.facts.item_ms is None
    program.loaders.probe()
    facts = program.facts
    assert facts.item_ms is not None and facts.item_ms >= 20
    assert facts.collate_ms is not None and facts.cpu_share is not None and facts.cpu_share < 0.5
    assert facts.slow_line is not None and facts.slow_line.function == "__getitem__"


def test_a_probe_is_no_part_of_the_run(program: Watched) -> None:
    class Talking(Items):
        def __getitem__(self, index: int) -> torch.Tensor:
            program.model(torch.ones(1, 2))
            next(iter(DataLoader(Items(2))))
            return torch.ones(2)

    program.train(DataLoader(Talking(8), batch_size=4, num_workers=1))
    before = program.loaders.samples_in_steps(), len(program.watch.loaders())
    program.loaders.probe()
    assert (program.loaders.samples_in_steps(), len(program.watch.loaders())) == before
    program.train([torch.ones(1, 2)])  # and is watched as before
    training = program.loaders.training()
    assert training is not None and program.watch._clock.steps == 3


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.arange(32.0).reshape(16, 2))


def test_a_stream_is_not_consumed_by_the_probe(program: Watched) -> None:
    program.train(DataLoader(Stream(), batch_size=4, num_workers=2))
    program.loaders.probe()
    facts = program.facts
    assert facts.item_ms is None and facts.transport_ms is not None
    assert facts.duplicate_share == 0.5  # every worker reads all of it


def test_nothing_is_probed_where_there_is_no_loader(program: Watched) -> None:
    program.train([torch.ones(1, 2)])
    program.loaders.probe()
    assert program.loaders.facts() is None and program.loaders.samples_in_steps() == 0


def stacked(items: list[torch.Tensor]) -> torch.Tensor:
    """Sequences of different lengths as a recurrent network takes them: (time, batch, features)."""
    return pad_sequence([item.repeat(3 + len(items) % 3, 1) for item in items])


@pytest.mark.parametrize("tuples", [False, True])
def test_samples_are_counted_along_the_dimension_that_has_them(program: Watched, tuples: bool) -> None:
    def collate(items: list[torch.Tensor]) -> Any:
        batch = stacked(items)
        return (batch, batch) if tuples else batch

    for batch in DataLoader(Items(19), batch_size=8, collate_fn=collate):
        program.train([batch[0] if tuples else batch])
    (record,) = program.loaders.records
    assert record.batches == 3 and record.samples == 19


def test_a_feature_for_each_sample_is_no_second_batch(program: Watched) -> None:
    """Rows of as many features as a batch has rows: the last, smaller batch still counts by its rows."""
    program.train(DataLoader(Items(7), batch_size=2))
    (record,) = program.loaders.records
    assert record.samples in (7, 8)  # (2, 2) may lie either way
    program.train(DataLoader(Items(7), batch_size=3))
    assert program.loaders.records[-1].samples == 7
