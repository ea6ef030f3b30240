"""Steps wait for memory pages to be read back from disk."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import MemoryUse, Profile

FAULTS = 1.0  # major faults per step, by definition of "in each step"
FAULT_MS = 0.1  # one random page from a solid-state disk; set by experiment
FULL = 0.8  # of host memory in use, from where pages of files are pushed out (TraceML)
PAGE = 4096


class Swapping(Rule):
    """When memory is full, the system writes pages to disk and reads them back when they are touched.

    Each such read stops the thread for about a tenth of a millisecond or more, a thousand times as long as
    memory takes. The ceiling is the number of these reads per step times 0.1 ms. Pages of mapped data
    files that are read for the first time are no swapping: without swap-in the rule asks for memory to be
    80 % full.
    Use less memory per process: fewer loader workers, a smaller batch, fewer programs beside this one.
    """

    family = Family.MEMORY
    kind = Kind.WASTE
    on_traces = "swap and major page faults: a trace does not hold them"
    threshold = "swap-in, or a major page fault per step in full memory (by definition), 2 % of the step"
    knobs = ("num_workers", "batch_size")
    explains = ("unstable_steps",)

    def check(self, profile: Profile) -> Finding:
        phases, memory = profile.phases, profile.memory
        if memory is None or (memory.swapped_in_bytes is None and memory.major_faults_per_step is None):
            return self.not_applicable("swap-in and page faults", "this system does not count them")
        faults = memory.major_faults_per_step
        if not memory.swapped_in_bytes:
            if faults is None or faults < FAULTS:
                return self.passed(f"{faults or 0:,.1f} pages per step read from disk")
            if memory.host_used_share is None:
                return self.not_applicable("share of memory in use", "mapped files fault as swapping does")
            if memory.host_used_share < FULL:
                used = percent(memory.host_used_share)
                return self.passed(f"{faults:,.1f} pages per step read from files, {used} of memory in use")
        if phases is None or phases.step_ms <= 0:
            return self.not_applicable("no steps were recorded")
        pages = faults if faults is not None else _pages(memory, phases.steps)
        share = min(1.0, pages * FAULT_MS / phases.step_ms)
        return self.opportunity(
            f"{percent(share)} of each step reads pages back from disk",
            self.modelled(share),
            advice=_advice(profile),
            evidence={
                "pages_read_per_step": round(pages, 2),
                "swapped_in_bytes": memory.swapped_in_bytes,
                "memory_used_share": memory.host_used_share,
            },
        )


def _pages(memory: MemoryUse, steps: int) -> float:
    return (memory.swapped_in_bytes or 0) / PAGE / max(1, steps)


def _advice(profile: Profile) -> str:
    loader = profile.loader
    if loader is not None and loader.num_workers:
        fewer = loader.num_workers // 2
        return f"Use fewer workers, each of which holds memory: `DataLoader(..., num_workers={fewer})`."
    return (
        "Use less memory: a smaller `batch_size`, which changes training, or fewer programs beside this one."
    )
