"""The type in which parameters travel and are computed with under FSDP."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Refused, Semantics
from advisor.tuners.strategy_knob import StrategySetting

NO_UNITS = "this CPU has no bf16 units: a bf16 matmul is {speedup:.2f} times as fast as one in float32"
BATCH_NORM = "batch norm keeps its statistics in float32, which do not go with weights in bf16"


class FsdpPrecision(StrategySetting[str]):
    """Gathers parameters in bf16 and computes forward and backward with them.

    Every rank keeps its part in float32 for the update, and gradients are summed in float32, so gathering
    sends half the bytes and the rest as many as before. Unlike autocast it acts on whole modules: inputs are
    cast to bf16, and so is what a module keeps for backward, also around softmax and norms. The model
    hands out float32. Losses differed by 3e-4 from float32 after 20 steps of a small network. It takes the
    place of `amp`, which is left off.
    """

    semantics = Semantics.PRECISION
    acts_on = ("forward", "backward", "communication")
    strategies = ("fsdp",)
    default = "off"

    def values(self) -> list[str]:
        return ["off", "bf16"]

    def choices(self, profile: Profile) -> list[str]:
        self.check("bf16", profile)
        return ["off", "bf16"]

    def check(self, value: str, profile: Profile) -> None:
        machine, run = profile.machine, profile.run
        if value == "off":
            return
        if run is not None and run.own_autocast:
            raise Refused("the program uses autocast itself, which a policy of FSDP excludes")
        if any("float64" in root.dtypes for root in profile.roots):
            raise Refused("parameters are float64, which the program asks for")
        if any(root.has_batch_norm for root in profile.roots):
            raise Refused(BATCH_NORM)
        if profile.device.startswith("cuda"):
            if any(gpu.capability < (8, 0) for gpu in machine.gpus):
                raise Refused("bf16 needs a GPU of compute capability 8.0 or more")
        elif machine.bf16_speedup is not None and machine.bf16_speedup < 1.0:
            raise Refused(NO_UNITS.format(speedup=machine.bf16_speedup))

    def prepare(self, config: Config, present: Config) -> None:
        """Look at the other changes.

        Raises:
            Refused: Autocast is to choose types too.
        """
        if config.get("fsdp_precision") == "bf16" and config.get("amp", "off") != "off":
            raise Refused("a precision policy of FSDP excludes autocast (amp)")

    def change(self, value: str) -> Change:
        if value == "off":
            return Change("fully_shard(...)  # without mp_policy")
        return Change(
            "from torch.distributed.fsdp import MixedPrecisionPolicy\n"
            "mp_policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)\n"
            "fully_shard(..., mp_policy=mp_policy)"
        )
