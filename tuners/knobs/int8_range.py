"""How many bits the weights of a quantised model use."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.base.unit import Unit
from advisor.profiles.events import Request
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics
from advisor.tuners.mechanisms.forms.checked import BITS

if TYPE_CHECKING:
    from torch.nn import Module


class Int8Range(Knob[str]):
    """Weights of 7 bits instead of 8, so that sums of two products fit into 16 bits.

    CPUs without VNNI add products of 8 bits in pairs into 16 bits, which saturate (pytorch 103646,
    onnxruntime 5849). Whether they do depends on the weights: uniform ones did, Gaussian ones did not, and
    there one bit less made the error larger (0.027 to 0.049). So `auto` takes 8, and 7 where the kernels do
    not compute what the weights say on this CPU; the others take what they say.
    """

    semantics = Semantics.PRECISION
    units = frozenset({Unit.REQUEST})
    usual_gain = 0.01
    acts_on = ("forward",)
    follows = "quantization"
    written = ("reduce_range",)

    def __init__(self) -> None:
        self._quantised = False

    def values(self) -> list[str]:
        return list(BITS)

    def present(self, profile: Profile) -> str:
        return "auto"

    def choices(self, profile: Profile) -> list[str]:
        if profile.device.startswith("cuda"):
            raise Refused("kernels of 8 bits are tried on CPUs only")
        return ["auto", "7"]  # 8 is what auto takes, or wrong

    def prepare(self, config: Config, present: Config) -> None:
        """Learn whether there is anything of 8 bits."""
        self._quantised = config.get("quantization", "none") != "none"

    def serve(
        self, function: Callable[..., Any], root: "Module", request: Request, value: str
    ) -> Callable[..., Any]:
        """What ``quantization`` made with this range.

        Raises:
            Refused: Nothing is quantised.
        """
        if not self._quantised:
            raise Refused("nothing is quantised (quantization)")
        return function

    def change(self, value: str) -> Change:
        if value == "7":
            return Change("reduce_range=True  # of the quantiser")
        return Change("reduce_range=False  # of the quantiser; True where its kernels saturate")
