"""Items of a dataset kept in memory after they were read once."""

from collections.abc import Iterator
from typing import Any

from advisor.profiles.derived.demand import rank_count
from advisor.profiles.derived.epochs import epochs_of
from advisor.profiles.facts.machine import CGROUP
from advisor.profiles.facts.profile import LoaderFacts, Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics
from advisor.tuners.mechanisms.cached_items import CachedItems, has_changed, keep_nothing, look

MEMORY_SHARE = 0.8  # of free memory, as for the queues of workers
ITERABLE = "an iterable dataset has no items that could be asked for again"
LONGEST_EPOCH_S = 30.0  # that each process of a comparison waits for, unless a user names the value
NEXT_EPOCH = "items kept in one epoch help the next"
MIB = 2**20

CLASS = '''\
import copy

import torch


class CachedItems(torch.utils.data.Dataset):
    """Items of another dataset, each read once."""

    def __init__(self, dataset):
        self.dataset = dataset
        self.items = {}

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        if index not in self.items:
            self.items[index] = self.dataset[index]
        return copy.deepcopy(self.items[index])  # so that nobody changes what is kept


dataset = CachedItems(dataset)  # before its DataLoader is made; workers need persistent_workers=True'''


class InMemoryCache(Knob[str]):
    """Reads and decodes each item once and keeps it, so that later epochs only copy it.

    It helps from the second epoch on, where making an item takes longer than copying it, and only where an
    item is the same at every reading: random augmentation must come after it. Measured: 1.80x where
    spectrograms took nearly half of a step (`benchmarks/oracle.py --only spectrograms`); the input wait
    bounds it.

    Memory: the whole dataset, as its items are after reading. Worker processes keep one such copy each,
    since any worker can be given any item; they need `persistent_workers`, or what they kept ends with
    the epoch. Two items are read twice before anything is kept, and once more in each epoch: where they
    differ, or draw random numbers, the change is refused.
    """

    semantics = Semantics.EXACT
    usual_gain = 0.5
    loading = True
    acts_on = ("input_wait",)
    layer = 2  # looks at what num_workers and persistent_workers have decided

    def values(self) -> list[str]:
        return ["off", "memory"]

    def present(self, profile: Profile) -> str:
        if profile.loader is None:
            raise Refused("the program uses no DataLoader")
        return "off"

    def choices(self, profile: Profile) -> list[str]:
        self.check("memory", profile)
        reason = _too_long(profile)
        if reason:
            raise Refused(reason)
        return ["off", "memory"]

    def epochs_before(self, value: str) -> int:
        return 1 if value == "memory" else 0  # workers, who each keep their own, take longer

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)
        loader = profile.loader
        if value == "off" or loader is None:
            return
        if loader.iterable:
            raise Refused(ITERABLE)
        if loader.dataset_length is None:
            raise Refused("the dataset has no length, so nobody can tell whether it fits into memory")
        reason = _too_large(loader, profile) or _never_used(profile)
        if reason:
            raise Refused(reason)

    def loader(self, arguments: dict[str, Any], value: str) -> None:
        """Give one loader a dataset that keeps its items.

        Raises:
            Refused: The items cannot be kept: they change, do not fit, or nobody could use them again.
        """
        from torch.utils.data import IterableDataset

        dataset = arguments["dataset"]
        if value == "off" or type(dataset) is CachedItems:
            return
        if isinstance(dataset, IterableDataset):
            raise Refused(ITERABLE)
        workers = arguments.get("num_workers") or 0
        if workers and not arguments.get("persistent_workers"):
            raise Refused(
                "workers end with the epoch, and with them what they kept: needs persistent_workers"
            )
        try:
            seen = look(dataset)
        except ValueError as reason:
            raise Refused(str(reason)) from None
        room = int(MEMORY_SHARE * _free_bytes()) // max(1, workers)
        too_large = _asks_for(len(dataset), seen.item_bytes, 1, room)
        if too_large:
            raise Refused(too_large)
        arguments["dataset"] = CachedItems(dataset, room, seen.items)

    def batches(self, iterator: Iterator[Any], value: str) -> Iterator[Any]:
        """The iterator as it is, after another look at the items read first.

        Raises:
            Refused: They have changed since; from now on all items are read.
        """
        dataset = getattr(iterator, "_dataset", None)
        if type(dataset) is CachedItems and has_changed(dataset):
            keep_nothing(dataset)
            raise Refused("the program changes its items between epochs")
        return iterator

    def change(self, value: str) -> Change:
        return Change("# give the DataLoader the dataset itself" if value == "off" else CLASS)


def _too_large(loader: LoaderFacts, profile: Profile) -> str | None:
    """Why the items do not fit, as far as the profile knows."""
    if loader.dataset_length is None or loader.batch_bytes is None or not loader.batch_size:
        return None
    used = profile.memory.host_peak_bytes if profile.memory is not None else 0
    machine = profile.machine
    free = min(machine.memory_bytes - used, machine.available_bytes or machine.memory_bytes)
    processes = max(1, loader.num_workers) * rank_count(profile)
    item_bytes = loader.batch_bytes / loader.batch_size
    return _asks_for(loader.dataset_length, item_bytes, processes, int(MEMORY_SHARE * free))


def _never_used(profile: Profile) -> str | None:
    """Why no second epoch can be measured, in which kept items are used."""
    steps = _epoch_steps(profile)
    if steps is None:
        return f"{NEXT_EPOCH}, and how many steps an epoch has is not known"
    run = profile.run
    ends = [] if run is None else [end for end in (run.steps_total, run.launch_steps) if end is not None]
    if ends and min(ends) < 2 * steps:
        return f"{NEXT_EPOCH}, and {min(ends)} steps are less than two epochs"
    return None


def _too_long(profile: Profile) -> str | None:
    steps = _epoch_steps(profile)
    if steps is None or profile.phases is None:
        return None
    epoch_s = steps * profile.phases.step_ms / 1000
    if epoch_s <= LONGEST_EPOCH_S:
        return None
    return (
        f"{NEXT_EPOCH}, and each comparison would wait for one, {epoch_s:.0f} s; "
        "`--knob in_memory_cache=memory` tries it nevertheless"
    )


def _epoch_steps(profile: Profile) -> int | None:
    epochs = epochs_of(profile)
    return None if epochs is None else epochs.steps({})


def _asks_for(count: int, item_bytes: float, processes: int, room: int) -> str | None:
    needed = count * item_bytes * processes
    if needed <= room:
        return None
    copies = f", in each of {processes} processes," if processes > 1 else ""
    return (
        f"{count} items of {item_bytes / 1024:.1f} KiB{copies} take {needed / MIB:.0f} MiB; "
        f"{max(0, room) / MIB:.0f} MiB of free memory may be used"
    )


def _free_bytes() -> int:
    """Memory that this process may still take: what is free, within the limit of its cgroup."""
    import psutil

    free = int(psutil.virtual_memory().available)
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
    except OSError:
        return free
    own = int(psutil.Process().memory_info().rss)
    return min(free, int(limit) - own) if limit.isdigit() else free
