"""Memory use rises from step to step and does not come back."""

from typing import Any

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import MemoryUse, Profile

STEPS = 50  # fewer are still warming up (TraceML)
GROWTH_BYTES = 2**30  # TraceML
GROWTH_SHARE = 0.05  # of all memory (SageMaker Debugger, GPUMemoryIncrease)
FAST_BYTES = 2**28  # and so fast that memory is full within FULL_S: both chosen here; a run outlasts that
FULL_S = 3600.0
SETTLED = (
    20  # times what a step holds, up to which heaps grow before they are large enough. Chosen, not measured
)
MIB = 2**20


class MemoryGrowth(Rule):
    """Memory that each step takes and does not give back ends the run, often hours later.

    Usual holders are a list of losses that still carry their graph, outputs kept for a metric, a cache
    without a limit, or a dataset that stores what it has read. Growth in the first steps is normal:
    the rule asks for a rise that goes on over at least 50 steps. A rise that has not reached 1 GiB yet counts
    from 256 MiB and 20 times what one step holds on where memory would be full within an hour.
    Keep numbers instead of tensors (`losses.append(loss.item())`), give caches a limit, and stop the run
    before it fails. `torch.cuda.memory._snapshot()` or `gc.get_objects()` at two steps shows what was added.
    """

    family = Family.MEMORY
    kind = Kind.RISK
    on_traces = "memory over many steps: a trace does not hold it"
    threshold = (
        "a steady rise over 50 steps by 1 GiB (TraceML) or 5 % of memory (SageMaker Debugger), "
        "or by 256 MiB if memory would be full within an hour"
    )
    explains = ("memory_pressure",)
    severity = Severity.HIGH
    timed = False

    def check(self, profile: Profile) -> Finding:
        memory = profile.memory
        if memory is None or memory.growth_bytes is None or memory.growth_monotone is None:
            return self.not_applicable("growth of memory", "needs a watched run")
        if memory.growth_steps < STEPS:
            return self.not_applicable(f"{memory.growth_steps} steps of memory use", f"needs {STEPS}")
        limit = _limit(profile, memory)
        enough = GROWTH_BYTES if limit is None else min(GROWTH_BYTES, GROWTH_SHARE * limit)
        left = None if limit is None else _steps_left(profile, memory, limit)
        if left is not None and profile.phases is not None and left * profile.phases.step_ms < 1000 * FULL_S:
            enough = min(enough, max(FAST_BYTES, SETTLED * (memory.activation_bytes or 0)))
        grown = f"{max(0, memory.growth_bytes) / MIB:,.0f} MiB"
        if memory.growth_bytes < enough or not memory.growth_monotone:
            return self.passed(f"{grown} more memory after {memory.growth_steps} steps")
        evidence: dict[str, Any] = {
            "growth_mib": round(memory.growth_bytes / MIB, 1),
            "growth_steps": memory.growth_steps,
        }
        title = f"{grown} more memory after {memory.growth_steps} steps, still rising"
        if limit is not None:
            title += f": {percent(memory.growth_bytes / limit)} of all memory"
            if left is not None:
                evidence["steps_until_full"] = left
        if memory.retained_name:
            place = f" ({memory.retained_location})" if memory.retained_location is not None else ""
            advice = (
                f"Keep numbers, not tensors, in `{memory.retained_name}`{place}: `.item()` or `.detach()`."
            )
        else:
            advice = (
                "Stop before memory is full, and find what is kept: compare `gc.get_objects()` at two steps."
            )
        return self.diagnostic(title, advice=advice, location=memory.retained_location, evidence=evidence)


def _limit(profile: Profile, memory: MemoryUse) -> int | None:
    return memory.host_limit_bytes if profile.device == "cpu" else memory.device_total_bytes


def _steps_left(profile: Profile, memory: MemoryUse, limit: int) -> int | None:
    peak = memory.host_peak_bytes if profile.device == "cpu" else memory.device_peak_bytes
    if peak is None or not memory.growth_bytes_per_step or memory.growth_bytes_per_step < 0:
        return None
    return max(0, round((limit - peak) / memory.growth_bytes_per_step))
