"""What DistributedDataParallel sends of the gradients."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Refused, Semantics
from advisor.tuners.mechanisms.data_parallel.compression import FIRST_LOW_RANK, HOOKS, MATRIX_RANK
from advisor.tuners.strategy_knob import StrategySetting

NO_BF16 = "the communication hook for bf16 needs CUDA with NCCL 2.10 or later"
SPARSE = "gradients of sparse embeddings cannot be compressed"
TORCH = "from torch.distributed.algorithms.ddp_comm_hooks import "
OURS = 'from advisor.tuners.mechanisms.data_parallel.compression import register\nregister(model, "{}")'
CODE = {
    "none": "DistributedDataParallel(model)  # without register_comm_hook: gradients travel as they are",
    "fp16": f"{TORCH}default_hooks\nmodel.register_comm_hook(None, default_hooks.fp16_compress_hook)",
    "bf16": f"{TORCH}default_hooks\nmodel.register_comm_hook(None, default_hooks.bf16_compress_hook)",
    "powersgd": f"""{TORCH}powerSGD_hook
state = powerSGD_hook.PowerSGDState(
    None, matrix_approximation_rank={MATRIX_RANK}, orthogonalization_epsilon=1e-8,
    start_powerSGD_iter={FIRST_LOW_RANK},  # to learn well: about a tenth of all updates
)
model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)""",
    "topk": OURS.format("topk"),
    "int8": OURS.format("int8"),
}


class CommunicationHook(StrategySetting[str]):
    """Sends gradients in fewer bytes, which pays where the network is slow and compressing is not.

    `fp16` and `bf16` send 16 of 32 bits; very small gradients are lost in fp16. `powersgd` sends two thin
    matrices for each gradient, `topk` the largest hundredth of the values, `int8` 8 bits rounded at random.
    The first two change numbers a little (fp16: 7e-5 of the loss after 20 steps); the others change what is
    learnt (powersgd: 3e-3), so they are tried only when named, and judged by the loss. What `powersgd` and
    `topk` leave out is kept and sent later, which takes memory of the size of the gradients.

    On two cores fp16 made 1194 to 1291 samples/s on a small convolution network and 7022 to 7268 on large
    linear layers: within one machine it cannot be told apart from sending everything.
    """

    semantics = Semantics.PRECISION
    opt_in = True
    strategies = ("ddp",)
    default = "none"

    def values(self) -> list[str]:
        return list(HOOKS)

    def meaning(self, config: Config) -> Semantics:
        return HOOKS[str(config.get("communication_hook", "none"))]

    def choices(self, profile: Profile) -> list[str]:
        self.check("fp16", profile)
        return ["none", "fp16", "bf16"] if profile.device.startswith("cuda") else ["none", "fp16"]

    def check(self, value: str, profile: Profile) -> None:
        if value != "none" and any(optimizer.sparse_gradients for optimizer in profile.optimizers):
            raise Refused(SPARSE)
        if value == "bf16" and not profile.device.startswith("cuda"):
            raise Refused(NO_BF16)

    def prepare(self, config: Config, present: Config) -> None:
        """Look at the other changes.

        Raises:
            Refused: PowerSGD cannot take gradients as they will be.
        """
        if config.get("communication_hook") != "powersgd":
            return
        if config.get("amp") == "fp16":
            raise Refused("under fp16 gradients overflow at times, and PowerSGD would remember that for good")
        if config.get("channels_last", "off") != "off":
            raise Refused("PowerSGD needs gradients that lie in memory as matrices, not channels_last")

    def change(self, value: str) -> Change:
        return Change(CODE[value])
