"""The system spends CPU time on giving memory to the process again and again."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

THRESHOLD = 0.1  # system time over CPU time; set by experiment
FAULTS = 1.0  # minor faults per step, by definition of "each step"
FAULT_MS = 0.002  # at most, to map and clear one page, in a virtual machine too; set by experiment
ERROR = 0.5  # relative: published gains are in CPU time, and wall time did not always follow


class PageFaultBound(Rule):
    """Large tensors are freed after each step and their memory goes back to the system, page by page.

    In the next step the system must map and clear the same pages again, at a fault each. This is system
    time, which no operator shows. The ceiling is the system's share of CPU time, at most 0.002 ms for each
    fault counted.
    Let another allocator keep the memory: `LD_PRELOAD=libjemalloc.so.2 python train.py`, or raise the limits
    of the present one: `MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=1073741824`. A U-Net then
    used 1.16 to 1.28 times less CPU time (2-core CPU, tentative). More memory stays with the process.
    """

    family = Family.MEMORY
    kind = Kind.WASTE
    on_traces = "page faults: a trace does not hold them"
    threshold = "system time at least 10 % of CPU time, with page faults in each step (set by experiment)"
    knobs = ("malloc",)

    def check(self, profile: Profile) -> Finding:
        phases, memory = profile.phases, profile.memory
        if profile.device != "cpu":
            return self.not_applicable("host allocations of each step", "tensors live on the GPU")
        if memory is None or memory.system_share is None or memory.minor_faults_per_step is None:
            return self.not_applicable("system time and page faults", "needs a watched run")
        if phases is None or phases.step_ms <= 0:
            return self.not_applicable("no steps were recorded")
        system, faults = memory.system_share, memory.minor_faults_per_step
        said = f"{percent(system)} of CPU time in the system, with {faults:,.0f} page faults per step"
        if system < THRESHOLD or faults < FAULTS:
            return self.passed(said)
        share = min(system, faults * FAULT_MS / phases.step_ms)
        return self.opportunity(
            said,
            self.modelled(share, ERROR),
            advice="Let the allocator keep freed memory: `MALLOC_MMAP_THRESHOLD_=1073741824 "
            "MALLOC_TRIM_THRESHOLD_=1073741824 python ...`, or another one: `LD_PRELOAD=libjemalloc.so.2 "
            "python ...`; more memory stays with the process.",
            evidence={
                "system_share": round(system, 4),
                "minor_faults_per_step": round(faults, 1),
                "faults_ms_at_most": round(faults * FAULT_MS, 4),
            },
        )
