"""Items fetch what they hold from another process of the program, through a pipe."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.demand import FILE_BYTES, feeding, is_piped
from advisor.profiles.facts.profile import Profile
from advisor.rules.input_bound import THRESHOLD
from advisor.rules.slow_item import wait_ceiling


class PipedItems(Rule):
    """A dictionary or list of `multiprocessing.Manager()` lies in a process of its own, and nowhere else.

    Each access sends a message there, and the value comes back pickled through a pipe: the manager's one
    process copies it, the reader makes it anew, and all workers queue for the same lock of one interpreter.
    So a cache that was meant to save time takes longer than reading a file. Keep the data where all
    processes read it directly: a tensor in shared memory, `data.share_memory_()`, a file mapped by
    `numpy.memmap`, or plain arrays that forked workers inherit. The ceiling is the wait that such items
    explain.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    on_traces = "where items come from: a trace does not hold it"
    threshold = (
        f"{FILE_BYTES} bytes of an item through a connection (a disk's sector, as for files), with input "
        f"wait at least {THRESHOLD:.0%}"
    )
    explains = ("input_bound", "slow_item", "slow_storage", "slow_collate", "too_many_workers")

    def check(self, profile: Profile) -> Finding:
        phases, loader = profile.phases, profile.loader
        if phases is None:
            return self.not_applicable("no steps were recorded")
        if loader is None:
            return self.not_applicable("data loader", "the program uses no DataLoader")
        fed = feeding(profile)
        if fed is None or loader.item_ms is None:
            return self.not_applicable("bytes of an item", "needs items that can be fetched singly")
        size = f"{loader.item_told_bytes / 1024:,.3g} KiB"
        told = f"{size} of each item come through a pipe"
        share = phases.share("input_wait")
        if not is_piped(loader):
            return self.passed(told)
        if share < THRESHOLD or not fed.explains_wait:
            return self.passed(f"{told}, and {percent(share)} of the step waits for data")
        return self.opportunity(
            f"{percent(share)} of each step waits for items of which {size} each come from another process, "
            "through a pipe",
            wait_ceiling(self, profile, fed.items_ms / fed.making_ms if fed.making_ms else 1.0),
            advice="Keep what items read where all processes reach it: a tensor with `.share_memory_()`, a "
            "file mapped by `numpy.memmap`. A manager is one process, which pickles each access for all.",
            location=loader.slow_line or loader.location,
            evidence={
                "item_told_bytes": loader.item_told_bytes,
                "item_ms": round(loader.item_ms, 4),
                "num_workers": loader.num_workers,
            },
        )
