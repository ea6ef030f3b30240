"""Updates within backward under ZeRO."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Refused, Semantics
from advisor.tuners.mechanisms.computed import gradient_norms
from advisor.tuners.strategy_knob import StrategySwitch

CODE = """from torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import hook_with_zero_step
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
optimizer = ZeroRedundancyOptimizer(..., overlap_with_ddp=True)
model.register_comm_hook(None, hook_with_zero_step(allreduce_hook, model, optimizer))
# and no optimizer.step() in the loop"""
NO_NCCL = "it needs two GPUs: gloo may hang where updates overlap with backward, so torch refuses it"
READS_GROUPS = "overlap_with_ddp takes the optimizer's settings once and never looks at them again"


class OverlapWithDdp(StrategySwitch):
    """Updates and sends the parameters of a bucket as soon as its gradients are averaged, within backward.

    Sending then overlaps with what backward still computes. torch learns where buckets end in the first
    two steps and makes no update in them, so that what is learnt differs from one process, a little and
    for good. Clipping and schedulers of the learning rate cannot act, and the optimizer must have a
    functional form (SGD, Adam, AdamW, RMSprop and four more), which torch builds with the deprecated
    `torch.jit`. It needs NCCL. Tried only when it is named; it was not measured.
    """

    semantics = Semantics.TRAINING
    named_only = True
    strategies = ("zero",)

    def check(self, value: str, profile: Profile) -> None:
        if value == "off":
            return
        if len(profile.machine.gpus) < 2 or not profile.device.startswith("cuda"):
            raise Refused(NO_NCCL)
        if gradient_norms(profile) not in (None, "none"):
            raise Refused("norms over all gradients are taken between backward and update, as for clipping")

    def prepare(self, config: Config, present: Config) -> None:
        """Look at the other changes.

        Raises:
            Refused: One of them acts on the optimizer, or between backward and update.
        """
        if config.get("overlap_with_ddp") != "on":
            return
        if config.get("amp") == "fp16":
            raise Refused("gradients under fp16 must be divided by the scale before an update")
        for name in ("lr_scaling", "optimizer_implementation"):
            if config.get(name, present.get(name)) != present.get(name):
                raise Refused(f"{READS_GROUPS}, which {name} needs")

    def change(self, value: str) -> Change:
        return Change(CODE if value == "on" else "ZeroRedundancyOptimizer(..., overlap_with_ddp=False)")
