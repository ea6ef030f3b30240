"""Each worker comes to hold a copy of the Python objects that the dataset is made of."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

LEAST_BYTES = 256 * 2**20  # of all copies, below which nobody misses them. Chosen, not measured
MEDIUM = 0.1  # of the machine's memory; chosen


class CopiedObjects(Rule):
    """A forked worker shares the memory of the program until one of the two writes to it, and reading writes.

    Each Python object counts who refers to it, in its own memory, so a worker that looks at a list, a
    dictionary or a string gets a copy of the page where it lies. With each item the workers hold more of a
    copy of their own: memory grows over the first epoch until every worker has all, and the run may end for
    want of it. Numbers in one array are one object. Keep what is long as `numpy` arrays or tensors: one of
    all values and one of offsets, strings as bytes in one array, or in a file that is mapped into memory.
    """

    family = Family.MEMORY
    kind = Kind.RISK
    on_traces = "what the dataset holds: a trace does not show it"
    threshold = "copies of 256 MiB in all workers; medium from 10 % of memory on (chosen)"
    timed = False
    explains = ("memory_growth", "memory_pressure", "swapping")

    def check(self, profile: Profile) -> Finding:
        loader = profile.loader
        if loader is None:
            return self.not_applicable("what the dataset holds", "needs a DataLoader")
        held = [each for each in loader.inherited if each.kind == "objects"]
        if not held:
            return self.passed("the dataset holds no long list of Python objects")
        largest = max(held, key=lambda each: each.bytes)
        each_mib, copies = largest.bytes / 2**20, largest.bytes * loader.num_workers
        said = f"{each_mib:,.0f} MiB of Python objects in `{largest.name}`"
        if not loader.num_workers:
            return self.passed(f"{said}, and no workers that would copy them")
        share = copies / profile.machine.memory_bytes if profile.machine.memory_bytes else 0.0
        workers = f"{loader.num_workers} worker{'s' * (loader.num_workers > 1)}"
        told = f"{said} are copied into {workers} as items are read, {percent(share)} of memory in all"
        if copies < LEAST_BYTES:
            return self.passed(told)
        return self.diagnostic(
            told,
            advice=f"Keep `{largest.name}` as `numpy` arrays or tensors, one of all values and one of "
            "offsets, strings as bytes: they stay shared. Each further worker takes as much again.",
            severity=Severity.MEDIUM if share >= MEDIUM else Severity.LOW,
            location=largest.location or loader.location,
            evidence={
                "objects_bytes": largest.bytes,
                "copies_bytes": copies,
                "num_workers": loader.num_workers,
            },
        )
