"""Data loaders: what the program asks for, what it gets, and how long it waits for each batch."""

import inspect
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.clock import Clock
from advisor.profiles.hooks.loader_record import LoaderRecord, user_location
from advisor.profiles.hooks.patches import Patch, Scope
from advisor.profiles.hooks.tensors import leading_size
from advisor.profiles.profile import LoaderFacts
from advisor.profiles.run import Run

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

WORKER_ONLY = ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context")


@dataclass(frozen=True)
class Changes:
    """How the arguments of a loader were changed: values set, and names left out."""

    values: dict[str, Any]
    removed: tuple[str, ...]

    @classmethod
    def between(cls, before: dict[str, Any], after: dict[str, Any]) -> "Changes":
        """The difference of two sets of arguments, told by identity: values may not be comparable."""
        missing = object()
        values = {name: value for name, value in after.items() if before.get(name, missing) is not value}
        return cls(values, tuple(name for name in before if name not in after))

    def __bool__(self) -> bool:
        return bool(self.values or self.removed)

    def apply(self, arguments: dict[str, Any]) -> None:
        """Make the same changes; a batch size only where this loader may choose it."""
        fixed = arguments.get("batch_sampler") is not None or arguments.get("batch_size", 1) is None
        for name, value in self.values.items():
            if not (fixed and name == "batch_size"):
                arguments[name] = value
        for name in self.removed:
            arguments.pop(name, None)


class Loaders:
    """Watches every DataLoader, and emits ``loader`` and ``batches`` for those of the training dataset.

    What subscribers change at the first loader over a dataset is repeated, as absolute values, at every
    later one: frameworks build a second loader from the first, and "times two" would apply twice.
    """

    def __init__(self, run: Run, clock: Clock, scope: Scope) -> None:
        from torch.utils.data import DataLoader
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        self._run = run
        self._clock = clock
        self._scope = scope
        self._signature = inspect.signature(DataLoader.__init__)
        self._datasets: list[Any] = []  # strong: an identity must not be used again
        self._changes: dict[int, Changes] = {}
        self._of_loader: weakref.WeakKeyDictionary[Any, LoaderRecord] = weakref.WeakKeyDictionary()
        self._of_iterator: weakref.WeakKeyDictionary[Any, LoaderRecord] = weakref.WeakKeyDictionary()
        self._delivered: set[LoaderRecord] = set()
        self._constructing = False
        self.records: list[LoaderRecord] = []
        self.patches = [
            Patch(DataLoader, "__init__", self._wrap_init),
            Patch(DataLoader, "__iter__", self._wrap_iter),
            Patch(_BaseDataLoaderIter, "__next__", self._wrap_next),
        ]

    def install(self) -> None:
        """Watch loaders from now on."""
        for patch in self.patches:
            patch.install()

    def remove(self) -> None:
        """Stop watching; loaders keep the arguments they were given."""
        for patch in self.patches:
            patch.remove()
        for record in self.records:
            record.timing.stop()

    def credit(self) -> None:
        """A step is over: it belongs to the loaders that delivered since the last one."""
        if self._delivered:
            for record in self._delivered:
                record.credit()
            self._delivered.clear()

    def training(self) -> LoaderRecord | None:
        """The loader whose batches preceded the most steps; before any step, the most used one."""
        used = [record for record in self.records if record.batches]
        return max(used, key=lambda record: (record.steps, record.batches), default=None)

    def facts(self) -> LoaderFacts | None:
        """The training loader as the program constructed it."""
        record = self.training()
        return None if record is None else record.facts()

    def _wrap_init(self, original: Callable[..., None]) -> Callable[..., None]:
        def __init__(loader: "DataLoader[Any]", *args: Any, **kwargs: Any) -> None:
            if self._constructing or not self._scope.active:
                return original(loader, *args, **kwargs)
            try:
                bound = self._signature.bind(loader, *args, **kwargs)
            except TypeError:
                return original(loader, *args, **kwargs)  # torch's own message for wrong arguments
            self._constructing = True
            try:
                self._construct(original, loader, dict(bound.arguments))
            finally:
                self._constructing = False

        return __init__

    def _construct(
        self, original: Callable[..., None], loader: "DataLoader[Any]", given: dict[str, Any]
    ) -> None:
        arguments = {name: value for name, value in given.items() if name != "self"}
        ordinal = self._ordinal(arguments["dataset"])
        asked = dict(arguments)
        if self._run.training_dataset in (None, ordinal):
            self._change(arguments, ordinal)
        original(loader, **arguments)
        parent = next((r for r in reversed(self.records) if r.feeds(ordinal, asked)), None)
        record = LoaderRecord(loader, asked, ordinal, parent, user_location())
        self.records.append(record)
        self._of_loader[loader] = record

    def _ordinal(self, dataset: Any) -> int:
        for ordinal, known in enumerate(self._datasets):
            if known is dataset:
                return ordinal
        self._datasets.append(dataset)
        return len(self._datasets) - 1

    def _change(self, arguments: dict[str, Any], ordinal: int) -> None:
        before = dict(arguments)
        known = self._changes.get(ordinal)
        if known is None:
            self._run.loader(arguments)
        else:
            known.apply(arguments)
        changes = Changes.between(before, arguments)
        if changes and not arguments.get("num_workers", 0):
            for name in WORKER_ONLY:  # torch rejects these without workers
                arguments.pop(name, None)
        if known is None:
            self._changes[ordinal] = Changes.between(before, arguments)

    def _wrap_iter(self, original: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def __iter__(loader: "DataLoader[Any]") -> Iterator[Any]:
            record = self._of_loader.get(loader) if self._scope.here() else None
            if record is None:
                return original(loader)
            self._clock.flag("epoch")
            self._clock.push("input_wait")
            try:
                iterator = original(loader)
            finally:
                record.begin_epoch(self._clock.pop())
            self._of_iterator[iterator] = record
            record.timing.start(iterator)
            is_training = self._run.training_dataset in (None, record.ordinal)
            if not (is_training and self._run.has("batches")):
                return iterator
            changed = self._run.batches(iterator)
            return iterator if changed is iterator else _Batches(changed, iterator)

        return __iter__

    def _wrap_next(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def __next__(iterator: Any) -> Any:
            record = self._of_iterator.get(iterator) if self._scope.active else None
            if record is None:
                return original(iterator)
            if not self._scope.here():  # a thread of the program fetches ahead
                batch = original(iterator)
                self._deliver(record, batch, 0)
                return batch
            self._clock.push("input_wait")
            record.timing.begin()
            try:
                batch = original(iterator)
            finally:
                waited = self._clock.pop()
            self._deliver(record, batch, waited)
            return batch

        return __next__

    def _deliver(self, record: LoaderRecord, batch: Any, waited_ns: int) -> None:
        samples = leading_size(batch) or record.batch_size or 0
        record.deliver(batch, samples, waited_ns)
        self._delivered.add(record)
        self._clock.count_samples(loader=samples)
        if self._scope.here():
            self._clock.batch_delivered()


class _Batches:
    """A changed iterator that still answers as the DataLoader's own one."""

    def __init__(self, changed: Iterator[Any], original: Any) -> None:
        self._changed = changed
        self._original = original

    @property  # type: ignore[misc]  # isinstance() must say what it said before
    def __class__(self) -> Any:
        return type(self._original)

    def __iter__(self) -> "_Batches":
        return self

    def __next__(self) -> Any:
        return next(self._changed)

    def __len__(self) -> int:
        return len(self._original)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)
