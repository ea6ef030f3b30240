"""Workers that live on from one epoch to the next."""

import weakref
from collections.abc import Iterator
from typing import Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.mechanisms.kept_workers import GivenToWorkers
from advisor.tuners.worker_knob import WorkerSetting

MOST_ITERATORS = 2  # frameworks build a second loader from the first; a third means one per epoch


class PersistentWorkers(WorkerSetting[str]):
    """Keeps worker processes alive between epochs, so their start is paid once.

    It helps when epochs are short: with four workers on items that wait for storage, 1.92 times against
    1.42 times without it. It costs the memory of idle workers while the program evaluates.

    Changes that the program makes to its dataset between epochs (``dataset.set_epoch(epoch)``) do not reach
    workers that are already running. Where an attribute of it, or one of two items that are read for this
    at the start of the first epochs, is seen to change, it is refused.

    Together with pinned memory it leaks threads and processes where a loader is built anew for every
    epoch (pytorch #91252), so there it is refused. Without workers it is refused.
    """

    semantics = Semantics.EXACT
    usual_gain = 0.3

    def __init__(self) -> None:
        self._iterators: weakref.WeakSet[Iterator[Any]] = weakref.WeakSet()
        self._given: weakref.WeakKeyDictionary[Iterator[Any], GivenToWorkers] = weakref.WeakKeyDictionary()
        self._count = 0

    def values(self) -> list[str]:
        return ["off", "on"]

    def present(self, profile: Profile) -> str:
        if profile.loader is None:
            raise Refused("the program uses no DataLoader")
        return "on" if profile.loader.persistent_workers else "off"

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        other = "off" if present == "on" else "on"
        self.check(other, profile)
        return [present, other]

    def check(self, value: str, profile: Profile) -> None:
        present, loader = self.present(profile), profile.loader
        changed = None if loader is None else loader.dataset_changes
        if value == "on" != present and changed is not None:
            raise Refused(_stale(changed))

    def batches(self, iterator: Iterator[Any], value: str) -> Iterator[Any]:
        """The iterator as it is; a loader with persistent workers gives the same one in every epoch.

        Raises:
            Refused: Loaders are built anew again and again, with pinned memory; or the program has changed
                its dataset since the workers were started.
        """
        if value == "on" and _keeps_workers(iterator):
            if getattr(iterator, "_pin_memory", False):
                self._count_loaders(iterator)
            self._compare(iterator)
        return iterator

    def _count_loaders(self, iterator: Iterator[Any]) -> None:
        if iterator in self._iterators:
            return
        self._iterators.add(iterator)
        self._count += 1
        if self._count > MOST_ITERATORS:
            raise Refused(
                "the program builds a new loader for every epoch; with pinned memory "
                "persistent workers would pile up (pytorch #91252)"
            )

    def _compare(self, iterator: Iterator[Any]) -> None:
        given = self._given.get(iterator)
        if given is None:
            self._given[iterator] = GivenToWorkers(iterator)
            return
        changed = given.change(iterator)
        if changed is not None:
            raise Refused(_stale(changed))

    def _set(self, arguments: dict[str, Any], value: str) -> None:
        arguments["persistent_workers"] = value == "on"

    def change(self, value: str) -> Change:
        return Change(f"DataLoader(..., persistent_workers={value == 'on'})")


def _keeps_workers(iterator: Iterator[Any]) -> bool:
    """A loader may have been told to keep workers that it does not have."""
    return bool(getattr(iterator, "_persistent_workers", False) and getattr(iterator, "_num_workers", 0))


def _stale(changed: str) -> str:
    return f"the program changes {changed} between epochs, which workers that live on would not see"
