"""An evaluation that several workers share: each takes every n-th batch of its loaders."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

Loaders = WeakKeyDictionary["DataLoader[Any]", "DataLoader[Any]"]


class DealtEvaluation:
    """Deals the batches of an evaluation out among the workers, in which every one evaluates.

    Batches stay as they are, so that a loader's last, smaller batch does too. Every worker gets as many, the
    first ones twice where they do not come out even: forwards may meet (shards are gathered, buffers are
    shared), and nobody may wait for one that does not come. What the user's function returns is of a worker's
    share; it is not used.

    Only loaders that go through a dataset in order are dealt out. One that draws at random, makes batches by
    itself or streams is left whole.
    """

    def __init__(self, rank: int, workers: int) -> None:
        self._rank, self._workers = rank, workers
        self._dealt: Loaders = WeakKeyDictionary()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """While it lasts, whoever iterates a DataLoader gets this worker's batches."""
        from torch.utils.data import DataLoader

        whole = DataLoader.__iter__

        def mine(loader: "DataLoader[Any]") -> Any:
            return whole(self._share_of(loader))

        DataLoader.__iter__ = mine  # type: ignore[method-assign]
        try:
            yield
        finally:
            DataLoader.__iter__ = whole  # type: ignore[method-assign]

    def _share_of(self, loader: "DataLoader[Any]") -> "DataLoader[Any]":
        from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

        if loader in self._dealt:
            return self._dealt[loader]
        batches = loader.batch_sampler
        in_order = type(batches) is BatchSampler and type(loader.sampler) is SequentialSampler
        if not in_order or not len(loader):
            return loader
        share = DataLoader(
            loader.dataset,
            batch_sampler=share_of(list(batches or ()), self._rank, self._workers),
            num_workers=loader.num_workers,
            collate_fn=loader.collate_fn,
            pin_memory=loader.pin_memory,
            timeout=loader.timeout,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            prefetch_factor=loader.prefetch_factor,
            persistent_workers=loader.persistent_workers,
        )
        self._dealt[loader] = share
        self._dealt[share] = share
        return share


def share_of(batches: list[list[int]], rank: int, workers: int) -> list[list[int]]:
    """Every ``workers``-th batch from ``rank`` on, as many for everyone."""
    each = -(-len(batches) // workers)
    return [batches[(rank + turn * workers) % len(batches)] for turn in range(each)]
