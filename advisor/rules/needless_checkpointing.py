"""Activations are computed twice although there is memory to keep them."""

from dataclasses import replace

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import share_of_step
from advisor.profiles.facts.profile import MemoryUse, Profile

ROOMY = 0.80  # of memory, at the peak without checkpointing; set by experiment
OVERHEAD = (
    2.0  # at most, of checkpointing over the operators that it repeats: hooks on every saved tensor, and
)
# the state of random numbers; 1.0 to 1.9 by experiment
GIB = 2**30


class NeedlessCheckpointing(Rule):
    """Blocks run through `torch.utils.checkpoint`, and their forward runs again inside backward.

    That trades time for memory, and here the memory is not needed: without checkpointing the peak would stay
    well below the limit. Call the blocks directly, or checkpoint only every second one. The peak without it
    is modelled from above: every checkpointed block is counted with all activations of the present peak.
    """

    family = Family.MEMORY
    kind = Kind.WASTE
    threshold = (
        "forward work repeated in backward while the peak without it stays below 80 % (set by experiment)"
    )
    knobs = ("activation_checkpointing",)
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window, memory = profile.window, profile.memory
        if window is None or not window.ops:
            return self.not_applicable("operators", "need steps recorded by torch.profiler")
        share = share_of_step(profile, window.recompute_ms)
        title = f"{percent(share)} of each step computes activations a second time"
        if share < self.least:
            return self.passed(title)
        if memory is None or memory.activation_bytes is None:
            return self.not_applicable("memory of activations", "is measured on one step")
        peak, limit = _use(profile, memory)
        if not peak or not limit:
            return self.not_applicable("memory limit", "is read from the device or the cgroup")
        blocks = max((root.repeated_blocks for root in profile.roots), default=0)
        if blocks < 2:
            return self.not_applicable("memory without checkpointing", "needs the number of repeated blocks")
        without = peak + (blocks - 1) * memory.activation_bytes
        if without >= ROOMY * limit:
            return self.passed(f"{title}; without that it might take {percent(without / limit)} of memory")
        return self.opportunity(
            title,
            replace(self.timeline(share), high=min(1.0, OVERHEAD * share)),
            advice="Call the blocks directly, `block(x)` for `checkpoint(block, x)`, "
            f"which raises peak memory from {peak / GIB:.2g} to at most {without / GIB:.2g} GiB.",
            location=next((root.location for root in profile.roots if root.location), None),
            evidence={
                "recomputed_ms": round(window.recompute_ms, 4),
                "peak_bytes": peak,
                "peak_without_bytes": without,
                "limit_bytes": limit,
                "repeated_blocks": blocks,
            },
        )


def _use(profile: Profile, memory: MemoryUse) -> tuple[int | None, int | None]:
    """Peak and limit of the memory that activations lie in."""
    if profile.device.startswith("cuda"):
        return memory.device_peak_bytes, memory.device_total_bytes
    return memory.host_peak_bytes, memory.host_limit_bytes or profile.machine.memory_bytes
