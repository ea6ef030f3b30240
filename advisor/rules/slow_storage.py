"""Items wait for the storage that they are read from."""

from dataclasses import replace

from advisor.advice.finding import Ceiling, Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.demand import WAITS, feeding
from advisor.profiles.facts.profile import LoaderFacts, Profile
from advisor.rules.input_bound import THRESHOLD
from advisor.rules.slow_item import in_ms, wait_ceiling

READERS = 4  # workers that read at the same time, as a first try
MIB = 2**20


class SlowStorage(Rule):
    """While an item is read from a disk or over the network, no processor works on it.

    Many small files cost a seek or a round trip each, and a network file system adds its own delay to every
    one of them. Such waits, unlike computing, run side by side: workers that wait share a CPU easily, so
    more of them than CPUs can make sense. Copy the data to a local disk before training, keep it in few
    large files that are read in order, or let workers read ahead. Whether it is storage shows in the CPU
    time of items, which is then far below their duration, and in the bytes that they read.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    on_traces = "bytes read for each item: a trace does not hold them"
    threshold = (
        f"items that read files spend more than {WAITS:.0%} of their time waiting (SageMaker Debugger), or "
        f"lie on a network file system, with input wait at least {THRESHOLD:.0%} of the step"
    )
    knobs = ("num_workers", "prefetch_factor", "in_memory_cache")
    explains = ("input_bound",)

    def check(self, profile: Profile) -> Finding:
        phases, loader = profile.phases, profile.loader
        if phases is None:
            return self.not_applicable("no steps were recorded")
        if loader is None:
            return self.not_applicable("data loader", "the program uses no DataLoader")
        wait = phases.share("input_wait")
        if wait < THRESHOLD:
            return self.passed(f"{percent(wait)} of the step waits for data")
        fed = feeding(profile)
        if fed is None or loader.item_ms is None:
            return self.not_applicable("time of an item", "needs items that can be fetched singly")
        if fed.reads_files is None:
            return self.not_applicable(
                "bytes read per item", "need items that can be fetched singly, on Linux"
            )
        if not fed.reads_files:
            return self.passed(f"{loader.item_read_bytes} bytes per item are read from files")
        if fed.cpu_share is None and not fed.network:
            return self.not_applicable("CPU share of an item's time", "was not measured")
        title = f"{in_ms(loader.item_ms)} to make an item"
        if fed.waiting is not None:
            title += f", {percent(fed.waiting)} of it waiting"
        if fed.collate_ms > fed.items_ms:
            return self.passed(f"{title}; joining items takes longer")
        part = fed.share_of_storage
        if part == 0.0:
            return self.passed(title)
        place = f" on {loader.network_filesystem}" if fed.network else ""
        return self.opportunity(
            f"{percent(wait * part)} of each step waits for storage{place}",
            _ceiling(self, profile, part),
            advice=_advice(loader),
            location=loader.slow_line or loader.location,
            evidence={
                "item_ms": round(loader.item_ms, 4),
                "cpu_share": loader.cpu_share and round(loader.cpu_share, 3),
                "read_mib_per_item": loader.item_read_bytes and round(loader.item_read_bytes / MIB, 4),
                "network_filesystem": loader.network_filesystem,
                "num_workers": loader.num_workers,
                "storage_mib_per_s": profile.rates
                and profile.rates.storage_read
                and round(profile.rates.storage_read / MIB, 1),
            },
        )


def _ceiling(rule: Rule, profile: Profile, part: float) -> Ceiling:
    """At most the whole wait: packed differently, items are also quicker to open and to decode."""
    found, free = wait_ceiling(rule, profile, part), profile.replays.loader_free
    return found if free is None else replace(found, high=max(found.high, free.high))


def _advice(loader: LoaderFacts) -> str:
    if loader.network_filesystem is not None:
        return 'Copy the data to a local disk before training: `rsync -a data/ "$TMPDIR/data/"`.'
    if loader.num_workers == 0:
        workers = 1 if loader.iterable else READERS
        return (
            f"Read ahead in workers, which may wait side by side: `DataLoader(..., num_workers={workers})`."
        )
    return "Store items in few large files and read them in order, such as shards of some hundred MiB each."
