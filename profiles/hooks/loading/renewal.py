"""Iterators of a DataLoader ended in the middle of an epoch, and made anew over the indices that are left.

What the sampler has given and the program has not got is given once more, to the new iterator, before what
the sampler gives next; so each index arrives once, in the sampler's order. Nothing is drawn from the
program's random numbers for it. Those of workers start from another seed, as they do in every epoch: what a
dataset draws in them is the same in distribution only.
"""

import io
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

CONTEXT = "_DataLoader__multiprocessing_context"
OWN_METHODS = ("__iter__", "_get_iterator")
ALSO_DELIVERED = 64  # numbers of delivered batches that are remembered before they are looked through
HANDLES = ("h5py", "lmdb", "tarfile", "zipfile", "sqlite3", "netCDF4", "zarr")  # of files that forks share


class Drawn:
    """Indices that workers were asked for, by iterator and number of the batch, and what the first took."""

    def __init__(self) -> None:
        self._drawn: weakref.WeakKeyDictionary[Any, dict[int, Any]] = weakref.WeakKeyDictionary()
        self._first_ns: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def draw(self, original: Callable[[Any], Any], iterator: Any) -> Any:
        """What the sampler gives next; the first time of an epoch it is timed."""
        if iterator._send_idx:
            index = original(iterator)
        else:
            began = time.perf_counter_ns()
            index = original(iterator)
            self._first_ns[iterator] = time.perf_counter_ns() - began
        self.note(iterator, index)
        return index

    def first_ns(self, iterator: Any) -> int | None:
        """How long the sampler took for the first indices of the epoch; ``None`` without workers."""
        return self._first_ns.get(iterator)

    def note(self, iterator: Any, index: Any) -> None:
        """The sampler has just given ``index``, which workers of ``iterator`` are asked for next."""
        drawn, number = self._drawn.setdefault(iterator, {}), iterator._send_idx
        if number == 0:
            drawn.clear()  # an epoch of workers that live on
        drawn[number] = index
        waiting = iterator._task_info
        if len(drawn) > len(waiting) + ALSO_DELIVERED:
            self._drawn[iterator] = {each: drawn[each] for each in (*waiting, number)}

    def outstanding(self, iterator: Any) -> list[Any]:
        """What was asked for and not delivered, in the sampler's order; nothing of one without workers."""
        drawn = self._drawn.get(iterator, {})
        return [drawn[number] for number in sorted(getattr(iterator, "_task_info", ()))]


class Rest:
    """The indices of an epoch that are left, once."""

    def __init__(self, outstanding: Sequence[Any], sampler: Iterator[Any]) -> None:
        self.outstanding = iter(outstanding)
        self.sampler = sampler

    def __iter__(self) -> "Rest":
        return self

    def __next__(self) -> Any:
        for index in self.outstanding:
            return index
        return next(self.sampler)


class Regrouped:
    """The indices of batches in batches of another size; the last may be smaller, or is left out."""

    def __init__(self, batches: Iterator[Sequence[Any]], size: int, drop_last: bool) -> None:
        self.indices = _indices_of(batches)
        self._size, self._drop_last = size, drop_last

    def __iter__(self) -> "Regrouped":
        return self

    def __next__(self) -> list[Any]:
        batch = list(islice(self.indices, self._size))
        if not batch or (self._drop_last and len(batch) < self._size):
            raise StopIteration
        return batch


def _indices_of(batches: Iterator[Sequence[Any]]) -> Iterator[Any]:
    """Those that batches consist of; also those that another size would leave out."""
    if isinstance(batches, Rest):
        return chain(chain.from_iterable(batches.outstanding), _indices_of(batches.sampler))
    return batches.indices if isinstance(batches, Regrouped) else chain.from_iterable(batches)


def resize(batch_sampler: Any, size: int) -> None:
    """Have a loader's own batch sampler make its batches so large from its next epoch on."""
    from torch.utils.data import BatchSampler

    if type(batch_sampler) is BatchSampler:
        batch_sampler.batch_size = size


def why_fixed(loader: "DataLoader[Any]") -> str | None:
    """Why iterators of this loader cannot be made anew within an epoch; ``None`` where they can."""
    from torch.utils.data import DataLoader, IterableDataset, IterDataPipe, MapDataPipe

    kind, dataset = type(loader), loader.dataset
    if isinstance(dataset, IterDataPipe | MapDataPipe):
        return "its dataset is a data pipe, whose parts share random numbers"
    if isinstance(dataset, IterableDataset):
        return "its dataset is iterable: nothing tells where another iterator would have to go on"
    for name in OWN_METHODS:
        if getattr(kind, name) is not getattr(DataLoader, name):
            return f"{kind.__name__} makes iterators of its own"
    for sampler in (loader.batch_sampler, loader.sampler):
        if hasattr(sampler, "state_dict"):
            return f"{type(sampler).__name__} keeps count of what it has given"
    return None


def open_file(dataset: Any) -> str | None:
    """Why workers must not be forked now: an attribute of a dataset, or of one in it, is an open file."""
    for _ in range(3):
        held = getattr(dataset, "__dict__", {})
        for name, value in held.items():
            if isinstance(value, io.IOBase) or type(value).__module__.partition(".")[0] in HANDLES:
                return f"dataset.{name} is an open file, whose position workers would share"
        dataset = held.get("dataset")
    return None


def settings_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a loader that say how its iterators are made, as these arguments set them."""
    from torch.multiprocessing import get_context

    workers = arguments.get("num_workers", 0)
    context = arguments.get("multiprocessing_context") if workers else None
    return {
        "num_workers": workers,
        "prefetch_factor": arguments.get("prefetch_factor") or 2 if workers else None,
        "persistent_workers": bool(workers and arguments.get("persistent_workers", False)),
        "pin_memory": arguments.get("pin_memory", False),
        "in_order": arguments.get("in_order", True),
        "timeout": arguments.get("timeout", 0) if workers else 0,
        CONTEXT: get_context(context) if isinstance(context, str) else context,
    }


def end(inner: Any) -> None:
    """End the workers of an iterator, if it has some; what they have made is let go."""
    if hasattr(inner, "_task_info"):
        inner._shutdown_workers()
        inner._task_info.clear()


def successor_of(inner: Any, rest: Iterator[Any], kind: type, attributes: dict[str, Any]) -> Any:
    """An iterator over the indices that another one leaves; its workers are started.

    Args:
        inner: The other one, ended.
        rest: What it leaves.
        kind: The class of its loader.
        attributes: Of the loader, as they are to be.
    """
    from torch import Generator
    from torch.utils.data import DataLoader

    batched = attributes["batch_sampler"] is not None
    loader: DataLoader[Any] = object.__new__(kind)
    vars(loader).update(attributes)
    vars(loader).update({
        "batch_sampler" if batched else "sampler": rest,
        "generator": Generator().manual_seed(inner._base_seed + 1),
    })  # fmt: skip
    successor = DataLoader._get_iterator(loader)
    successor._index_sampler = inner._index_sampler  # of its length, and of the next epoch
    return successor
