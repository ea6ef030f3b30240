"""Activations fill memory and keep the batch from growing."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

THRESHOLD = 0.60  # of the peak; set by experiment
HEADROOM = 0.92  # of memory: what a run may use, with 8 % left over usual steps


class ActivationHeavy(Rule):
    """What forward keeps for backward is most of the memory, and a doubled batch would not fit.

    Activations grow with the batch, parameters and optimizer state do not. Checkpointing a block stores only
    its input and computes the rest again in backward: `torch.utils.checkpoint.checkpoint(block, x,
    use_reentrant=False)`. That costs up to a second forward of those blocks, so it pays only together with a
    larger batch, or where memory is what stops the run.
    """

    family = Family.MEMORY
    kind = Kind.HEADROOM
    on_traces = "memory of activations: a trace does not hold it"
    threshold = (
        "activations at least 60 % of the peak, and a doubled batch beyond 92 % of memory (set by experiment)"
    )
    knobs = ("activation_checkpointing", "batch_size")
    timed = False

    def check(self, profile: Profile) -> Finding:
        memory = profile.memory
        if memory is None or memory.activation_bytes is None:
            return self.not_applicable("memory of activations", "is measured on one step")
        if profile.device.startswith("cuda"):
            peak, limit = memory.device_peak_bytes, memory.device_total_bytes
        else:
            peak, limit = memory.host_peak_bytes, memory.host_limit_bytes or profile.machine.memory_bytes
        if not peak or not limit:
            return self.not_applicable("memory limit", "is read from the device or the cgroup")
        share = min(1.0, memory.activation_bytes / peak)
        title = f"{percent(share)} of peak memory holds activations"
        if share < THRESHOLD:
            return self.passed(title)
        doubled = peak + memory.activation_bytes
        if doubled <= HEADROOM * limit:
            return self.passed(f"{title}; a doubled batch would take {percent(doubled / limit)} of memory")
        if any(root.checkpointed for root in profile.roots):
            return self.not_applicable("blocks that store activations", "the program checkpoints already")
        return self.diagnostic(
            f"{title}, and a doubled batch would not fit",
            advice="Call the repeated blocks through "
            "`torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)`, which computes their "
            "forward twice and frees memory for a larger batch.",
            location=next((root.location for root in profile.roots if root.location), None),
            evidence={
                "activation_bytes": memory.activation_bytes,
                "peak_bytes": peak,
                "limit_bytes": limit,
                "doubled_batch_share": round(doubled / limit, 3),
            },
        )
