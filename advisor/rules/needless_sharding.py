"""A model is sharded over ranks although it would fit on each."""

from statistics import fmean

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import MemoryUse, Profile

THRESHOLD = 0.50  # of a rank's memory for parameters, gradients and state unsharded; set by experiment
ROOM = 0.80  # of a rank's memory that the unsharded peak may take, so that the advice can be followed


class NeedlessSharding(Rule):
    """Sharding saves memory by fetching parameters from other ranks before each use, again and again.

    Where everything fits on each rank, those fetches buy nothing and the step waits for them. Keep
    parameters after forward, `fully_shard(module, reshard_after_forward=False)`, or replicate the model
    with `DistributedDataParallel`; both take more memory on each rank. The finding compares the unsharded
    size with the memory of a rank, and the peak that would follow.
    """

    family = Family.DISTRIBUTED
    kind = Kind.WASTE
    on_traces = "memory of parameters, gradients and state: a trace does not hold it"
    threshold = (
        "FSDP or ZeRO, with parameters, gradients and state unsharded below 50 % of memory "
        "(set by experiment)"
    )
    knobs = ("fsdp", "ddp")
    explains = ("exposed_communication",)

    def check(self, profile: Profile) -> Finding:
        ranks, memory = profile.ranks, profile.memory
        if not ranks or len(ranks) < 2:
            return self.not_applicable("ranks", "the run is a single process")
        fsdp = [root for root in profile.roots if (root.parallel or "").startswith(("FSDP", "Fully"))]
        zero = any(optimizer.name == "ZeroRedundancyOptimizer" for optimizer in profile.optimizers)
        if not fsdp and not zero:
            return self.not_applicable("sharded model", "neither FSDP nor ZeRO is used")
        if memory is None or memory.parameter_bytes is None:
            return self.not_applicable("memory of parameters", "no steps were watched")
        limit = _memory_of_a_rank(profile, memory)
        if limit <= 0:
            return self.not_applicable("memory of a rank", "its limit is not known")
        parameters = memory.parameter_bytes + (memory.gradient_bytes or 0)
        state = memory.optimizer_bytes or 0
        unsharded = (parameters if not fsdp else parameters * len(ranks)) + state * len(ranks)
        peak = memory.device_peak_bytes if profile.device != "cpu" else memory.host_peak_bytes
        after = (peak or 0) - parameters - state + unsharded
        share = unsharded / limit
        title = f"{percent(share)} of a rank's memory would hold the model unsharded"
        if share >= THRESHOLD or after > ROOM * limit:
            return self.passed(title)
        off = profile.replays.communication_off
        more = f"each rank then holds {(unsharded - parameters - state) / 2**20:.0f} MiB more."
        return self.opportunity(
            title,
            self.measured(off)
            if off is not None
            else self.timeline(fmean(rank.share("exposed") for rank in ranks)),
            advice=f"Keep parameters: `fully_shard(module, reshard_after_forward=False)`; {more}"
            if fsdp
            else f"Give each rank the whole optimizer in place of `ZeroRedundancyOptimizer`; {more}",
            location=fsdp[0].location if fsdp else None,
            evidence={"unsharded_bytes": unsharded, "memory_bytes": limit, "peak_after_bytes": after},
        )


def _memory_of_a_rank(profile: Profile, memory: MemoryUse) -> int:
    """The device's memory, or on the CPU an equal part of the host's."""
    if profile.device != "cpu":
        gpus = profile.machine.gpus
        return memory.device_total_bytes or (gpus[0].memory_bytes if gpus else 0)
    return (memory.host_limit_bytes or profile.machine.memory_bytes) // max(1, len(profile.ranks or ()))
