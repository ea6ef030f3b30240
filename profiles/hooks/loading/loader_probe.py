"""What making a batch costs, by making some in the main process, whatever the loader's workers do.

Belongs between two steps of a process of which only times count from now on: the dataset's own code runs, and
whatever it keeps count of moves on. Random numbers are put back.
"""

import operator
import pickle
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.profiles.facts.observed import Location
from advisor.profiles.hooks.busy_time import spent_ns
from advisor.profiles.hooks.loading.batch_look import Outline
from advisor.profiles.hooks.loading.dataset_state import State, first_difference, state_of
from advisor.profiles.hooks.loading.opened_files import network_filesystem, opened_files
from advisor.profiles.hooks.loading.received_bytes import told_bytes
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.step.hot_lines import Sampler

ITEMS = 24  # fetched and timed
LIMIT_S = 1.0  # for timing them, and again for finding the line that they spend their time in
SAMPLING_S = 0.001
SAMPLES = 10  # of the making of items, before a line is named
CARRIED = 5  # times a batch is passed
MOST_CARRIED_BYTES = 2**28  # shared memory may be small


@dataclass
class Probed:
    """What was learnt of making and passing a batch; ``None`` where it could not be."""

    items_ms: list[float] = field(default_factory=list)
    collate_ms: float | None = None
    cpu_share: float | None = None
    item_read_bytes: int | None = None
    item_told_bytes: int = 0
    network_filesystem: str | None = None
    transport_ms: float | None = None
    slow_line: Location | None = None
    items_change: str | None = None
    items_cached: bool = False

    @property
    def item_ms(self) -> float | None:
        """Median per item, in milliseconds."""
        return statistics.median(self.items_ms) if self.items_ms else None


class LoaderProbe:
    """Makes a few items of a map-style dataset, joins them to a batch and passes one like it.

    Args:
        dataset: Has a length and takes whole numbers as indices; others are left alone.
        collate: The loader's function that joins items.
        batch_size: How many it joins; ``None`` for one.
        outline: Shapes and types of a batch that was delivered.
        clock: Of this process.
    """

    def __init__(
        self,
        dataset: Any,
        collate: Callable[[Any], Any],
        batch_size: int | None,
        outline: Outline,
        clock: Clock,
    ) -> None:
        self._dataset = dataset
        self._collate = collate
        self._batch_size = batch_size
        self._outline = outline
        self._clock = clock
        self._takes_batches = batch_size is not None and bool(getattr(dataset, "__getitems__", None))
        self._probed = Probed()

    def run(self) -> Probed:
        """All that can be learnt within about two seconds."""
        with random_numbers_kept():
            with suppress(TheirFailure):  # what was learnt before it stands
                before = state_of(self._dataset, None)
                self._time_items()
                self._compare(before)
                self._find_line()
            self._probed.transport_ms = transport_ms(self._outline)
        return self._probed

    def _time_items(self) -> None:
        probed = self._probed
        indices = self._indices(0.0)
        if not indices:
            return
        self._fetch(self._indices(0.25)[:1])  # whatever is done once is done now
        items: list[Any] = []
        whole: list[Any] = []  # what `__getitems__` gives in place of a list of items: tensors of all of them
        made = 0
        deadline = time.perf_counter() + LIMIT_S
        with opened_files() as files, told_bytes() as told:
            read, began = _bytes_read(), spent_ns()
            for group in self._groups(indices):
                start = time.perf_counter()
                fetched = self._fetch(group)
                spent_ms = 1000 * (time.perf_counter() - start)
                probed.items_ms += [spent_ms / len(group)] * len(group)
                made += len(group)
                if isinstance(fetched, list) and len(fetched) == len(group):
                    items += fetched
                else:
                    whole.append(fetched)
                if time.perf_counter() > deadline:
                    break
            computed, free = (now - before for now, before in zip(spent_ns(), began, strict=True))
            after = _bytes_read()
        probed.cpu_share = min(1.0, computed / free) if free > 0 else None
        probed.network_filesystem = network_filesystem(files)
        if read is not None and after is not None:
            own = len(Path("/proc/self/io").read_bytes())  # reading the count is counted
            probed.item_read_bytes = max(0, after - read - own - told[0]) // made
        probed.item_told_bytes = told[0] // made
        probed.collate_ms = self._time_collate(items, whole)

    def _compare(self, before: State) -> None:
        """Which attribute of the dataset the making of items changed, and whether it has more entries."""
        after = state_of(self._dataset, None)
        name = first_difference(before, after)
        lengths = [each.get(name) for each in (before, after)] if name is not None else []
        self._probed.items_change = name
        one, other = lengths or (None, None)
        self._probed.items_cached = isinstance(one, int) and isinstance(other, int) and other > one

    def _time_collate(self, items: list[Any], whole: list[Any]) -> float:
        """Median of joining batches; where they are larger than what was fetched, items come again."""
        size = self._batch_size
        if whole or size is None:
            batches: list[Any] = whole or items
        else:
            most = max(1, len(items) // size)
            batches = [[items[(k * size + n) % len(items)] for n in range(size)] for k in range(most)]
        times = []
        deadline = time.perf_counter() + LIMIT_S / 4
        for batch in batches:
            began = time.perf_counter()
            theirs(self._collate, batch)
            times.append(time.perf_counter() - began)
            if time.perf_counter() > deadline:
                break
        return 1000 * statistics.median(times)

    def _find_line(self) -> None:
        """Make items again, other ones where there are, with nothing timed and the sampler on."""
        sampler = Sampler(self._clock, interval_s=SAMPLING_S, beyond_us=False)
        deadline = time.perf_counter() + LIMIT_S
        sampler.start()
        try:
            while self._probed.items_ms and sampler.samples < 2 * SAMPLES and time.perf_counter() < deadline:
                for group in self._groups(self._indices(0.5)):
                    self._fetch(group)
                    if time.perf_counter() > deadline:
                        break
        finally:
            sampler.stop()
        spots = sampler.hotspots()
        if sampler.samples >= SAMPLES and spots:
            self._probed.slow_line = max(spots, key=lambda spot: spot.share).location

    def _indices(self, shift: float) -> list[int]:
        """Up to so many, spread over the dataset."""
        length = theirs(len, self._dataset)
        count = min(ITEMS, length)
        return [int((place + shift) * length / count) for place in range(count)]

    def _groups(self, indices: Sequence[int]) -> Iterator[Sequence[int]]:
        """What is fetched at once: single items, unless the dataset takes batches of indices."""
        size = (self._batch_size or 1) if self._takes_batches else 1
        for place in range(0, len(indices), size):
            yield indices[place : place + size]

    def _fetch(self, group: Sequence[int]) -> Any:
        if self._takes_batches:
            return theirs(self._dataset.__getitems__, list(group))
        return [theirs(operator.getitem, self._dataset, group[0])]


class TheirFailure(Exception):
    """Code of the program failed; it was not the program that called it."""


def theirs(function: Callable[..., Any], *args: Any) -> Any:
    """Call code of the program, which may raise anything.

    Raises:
        TheirFailure: It did.
    """
    try:
        return function(*args)
    except Exception as error:
        raise TheirFailure from error


def transport_ms(outline: Outline) -> float | None:
    """Milliseconds to pass one batch of these tensors between processes, through shared memory.

    Pickled and unpickled here, as a worker and the main process would; ``None`` where shared memory
    cannot hold it.
    """
    import torch
    from torch.multiprocessing import reductions  # noqa: F401  # teaches the pickler to share tensors

    carried = sum(torch.Size(shape).numel() * dtype.itemsize for shape, dtype in outline)
    if not 0 < carried <= MOST_CARRIED_BYTES:
        return None
    from multiprocessing.reduction import ForkingPickler

    times = []
    for _ in range(CARRIED):
        batch = [torch.zeros(shape, dtype=dtype) for shape, dtype in outline]
        began = time.perf_counter()
        try:
            pickle.loads(ForkingPickler.dumps(batch))
        except (OSError, RuntimeError):  # no shared memory, or too little of it
            return None
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)


@contextmanager
def random_numbers_kept() -> Iterator[None]:
    """Python's, numpy's and torch's random numbers go on afterwards as if nothing had drawn any."""
    import torch

    numpy = sys.modules.get("numpy.random")
    ours, theirs = random.getstate(), numpy.get_state() if numpy is not None else None
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices):
        try:
            yield
        finally:
            random.setstate(ours)
            if numpy is not None:
                numpy.set_state(theirs)


def _bytes_read() -> int | None:
    """Bytes that this process has read so far, by any call of the system."""
    try:
        text = Path("/proc/self/io").read_text()
    except OSError:  # not on Linux, or hidden
        return None
    return int(text.split("rchar:")[1].split()[0])
