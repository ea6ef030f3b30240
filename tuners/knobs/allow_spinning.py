"""Whether threads of ONNX Runtime wait for work without giving their CPUs away."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.base.unit import Unit
from advisor.profiles.events import Request
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics
from advisor.tuners.mechanisms.forms.pools import refuse_without

if TYPE_CHECKING:
    from torch.nn import Module


class AllowSpinning(Knob[str]):
    """Threads of ONNX Runtime that spin answer sooner and burn CPU time between requests.

    It is ONNX Runtime's default and off here: idle threads used 3 CPU seconds in the second after a request,
    and torch was 50 times slower beside them (onnxruntime 13808). Where requests follow each other at once
    and nothing else runs, it pays: 1.4 to 1.6 times in searches of two small models on two cores.
    """

    semantics = Semantics.EXACT
    units = frozenset({Unit.REQUEST})
    usual_gain = 0.5
    acts_on = ("forward",)
    follows = "runtime"
    written = ("allow_spinning",)

    def __init__(self) -> None:
        self._runtime = "torch"

    def values(self) -> list[str]:
        return ["off", "on"]

    def present(self, profile: Profile) -> str:
        return "off"

    def choices(self, profile: Profile) -> list[str]:
        refuse_without(profile, "onnxruntime")
        return ["off", "on"]

    def prepare(self, config: Config, present: Config) -> None:
        """Learn who runs the model."""
        self._runtime = str(config.get("runtime", "torch"))

    def serve(
        self, function: Callable[..., Any], root: "Module", request: Request, value: str
    ) -> Callable[..., Any]:
        """What ONNX Runtime made with such threads.

        Raises:
            Refused: It does not run the model.
        """
        if self._runtime != "onnxruntime":
            raise Refused("ONNX Runtime does not run the model (runtime)")
        return function

    def change(self, value: str) -> Change:
        number = int(value == "on")
        return Change(
            f'options.add_session_config_entry("session.intra_op.allow_spinning", "{number}")'
            "  # of the session"
        )
