"""The loaders of the training dataset, brought to what subscribers ask for: as constructed, or later on."""

import weakref
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from advisor.profiles.events import Run
from advisor.profiles.hooks.loading.loader_changes import Changes
from advisor.profiles.hooks.loading.loader_record import LoaderRecord
from advisor.profiles.hooks.loading.renewal import (
    Drawn,
    Regrouped,
    Rest,
    end,
    resize,
    settings_of,
    successor_of,
)

WORKER_ONLY = ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context")
SWITCHED = ("num_workers", "pin_memory", "in_order", "batch_size", *WORKER_ONLY)


@dataclass(slots=True)
class Iterated:
    """An iterator that a program was given.

    Attributes:
        record: Of its loader.
        alive: The iterator itself; what is called when it is gone takes this out of where it is kept.
        loader: May be gone while the iterator is used.
        kind: The class of its loader.
        attributes: Of its loader, when the iterator was made.
        successor: The iterator that gives its batches from now on, where it was made anew.
        starting: The successor has not given a batch yet.
    """

    record: LoaderRecord
    alive: "weakref.ref[Any]"
    loader: "weakref.ref[Any]"
    kind: type
    attributes: dict[str, Any]
    successor: Any = None
    starting: bool = False


@dataclass
class Switching:
    """Has subscribers change loaders of the training dataset, and makes iterators in use anew.

    What they change at the first loader over a dataset is repeated, as absolute values, at every later one:
    frameworks build a second loader from the first, and "times two" would apply twice.

    Attributes:
        iterated: The iterators in use, by identity.
        drawn: What their samplers gave.
        start_ns: What it took to start the iterators of the latest switch: making them, and the wait for the
            first batch of each.
    """

    run: Run
    now_ns: Callable[[], int]
    iterated: dict[int, Iterated]
    drawn: Drawn = field(default_factory=Drawn)
    start_ns: int = 0
    _changes: dict[int, Changes] = field(default_factory=dict)
    _resized: set[LoaderRecord] = field(default_factory=set)  # have had batches of another size

    def forget(self, ordinal: int) -> None:
        """A dataset stands for another one now: its first loader is changed itself."""
        self._changes.pop(ordinal, None)

    def change(self, arguments: dict[str, Any], ordinal: int) -> None:
        """A loader is about to be constructed from these arguments."""
        before = dict(arguments)
        known = self._changes.get(ordinal)
        if known is None:
            self.run.loader(arguments)
        else:
            known.apply(arguments)
        _drop_needless(before, arguments)
        if known is None:
            self._changes[ordinal] = Changes.between(before, arguments)

    def switch(self, records: Collection[LoaderRecord], ordinal: int) -> None:
        """Bring loaders and iterators in use to what is asked for now, at a step border.

        What is asked for is told by the knobs that may be switched; all other changes stay.

        Args:
            records: Of the loaders that feed the training.
            ordinal: Of their dataset.
        """
        self.start_ns = 0
        iterators = [each for each in self.iterated.values() if each.record in records]
        iterating = [each.record for each in iterators]
        used = [record for record in records if record.loader is not None or record in iterating]
        changes: Changes | None = None
        for record in used:
            arguments = dict(record.own)
            if changes is None:
                self.run.loader(arguments, switched=True)
            else:
                changes.apply(arguments)
            _drop_needless(record.own, arguments)
            changes = changes or Changes.between(record.own, arguments).only(SWITCHED)
            settings = settings_of(arguments) | self._size_of(record, arguments)
            for each in iterators:
                if each.record is record:
                    self._renew(each, settings)
            if record.loader is not None:
                _set(record.loader, settings, iterators)
        known = self._changes.pop(ordinal, None)
        if known is not None and changes is not None:
            self._changes[ordinal] = known.without(SWITCHED).beside(changes)

    def began(self, iterated: Iterated, waited_ns: int) -> None:
        """The first batch after a switch arrived."""
        iterated.starting = False
        self.start_ns += waited_ns

    def _size_of(self, record: LoaderRecord, arguments: dict[str, Any]) -> dict[str, int]:
        """The size of its batches, where that is another than the program's, or was before."""
        size = arguments.get("batch_size", 1)
        if size == record.own.get("batch_size", 1) and record not in self._resized:
            return {}
        self._resized.add(record)
        record.batch_size = size
        return {"batch_size": size}

    def _renew(self, iterated: Iterated, settings: dict[str, Any]) -> None:
        outer, before, record = iterated.alive(), iterated.attributes, iterated.record
        if outer is None or _has(before, settings):
            return
        inner = outer if iterated.successor is None else iterated.successor
        rest: Iterator[Any] = Rest(self.drawn.outstanding(inner), inner._sampler_iter)
        if (size := settings.get("batch_size", before["batch_size"])) != before["batch_size"]:
            rest = Regrouped(rest, size, before["drop_last"])
            resize(inner._index_sampler, size)
        stopped_ns = record.stop_ns
        record.timing.stop()
        end(inner)
        record.stop_ns = stopped_ns  # workers that end at a switch end in the midst of their work
        iterated.attributes = {**before, **settings}
        began = self.now_ns()
        iterated.successor = successor_of(inner, rest, iterated.kind, iterated.attributes)
        iterated.starting = True
        self.start_ns += self.now_ns() - began


def _set(loader: Any, settings: dict[str, Any], iterators: Collection[Iterated]) -> None:
    """Have a loader make its next iterators so; workers that live on are those that were started last."""
    attributes = vars(loader)
    if _has(attributes, settings):
        return
    idle = attributes.get("_iterator")
    successors = [each.successor for each in iterators if each.loader() is loader]
    attributes.update(settings)
    if "batch_size" in settings:
        resize(loader.batch_sampler, settings["batch_size"])
    attributes["_iterator"] = successors[-1] if successors and settings["persistent_workers"] else None
    if idle is not None:
        end(idle)


def _has(attributes: dict[str, Any], settings: dict[str, Any]) -> bool:
    return all(attributes.get(name) == value for name, value in settings.items())


def _drop_needless(before: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Leave out what torch rejects without workers, of arguments that were changed."""
    if Changes.between(before, arguments) and not arguments.get("num_workers", 0):
        for name in WORKER_ONLY:
            arguments.pop(name, None)
