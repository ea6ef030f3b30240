"""How much of its activations compiled code keeps for backward."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics
from advisor.tuners.knobs.execution import require_compiler
from advisor.tuners.mechanisms.compiling import compiles

if TYPE_CHECKING:
    from torch.nn import Module


class ActivationMemoryBudget(Knob[str]):
    """The share of the activations that compiled code may keep; the cheapest rest is computed again.

    1.0 is what `torch.compile` chooses for speed, 0.0 would keep only the inputs of the compiled region.
    Between them torch solves which operators to compute twice, by their number of operations. It is the
    compiled counterpart of `activation_checkpointing`, which it excludes, and like it pays only where memory
    is short or together with a larger batch.

    It acts only together with an `execution` that compiles, and is a private setting of torch
    (`torch._functorch.config`), which may change. No figure of our own.
    """

    semantics = Semantics.ROUNDING
    usual_gain = 0.0

    def __init__(self) -> None:
        self._compiles = False

    def values(self) -> list[str]:
        return ["1.0", "0.7", "0.5", "0.3"]

    def present(self, profile: Profile) -> str:
        require_compiler(profile)
        return "1.0"

    def choices(self, profile: Profile) -> list[str]:
        self.present(profile)
        return self.values()

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)

    def prepare(self, config: Config, present: Config) -> None:
        """Learn whether anything is compiled."""
        self._compiles = compiles(config)

    def call(self, function: Callable[..., Any], root: "Module", value: str) -> Callable[..., Any]:
        """Set the budget before the first call compiles, in the thread that does: each has its own.

        Raises:
            Refused: Nothing is compiled, or this torch has no such setting.
        """
        if not self._compiles:
            raise Refused("activation_memory_budget needs an execution that compiles")
        from torch._functorch import config as settings

        if not hasattr(settings, "activation_memory_budget"):
            raise Refused("this torch has no activation_memory_budget")
        settings.activation_memory_budget = float(value)
        return function

    def change(self, value: str) -> Change:
        return Change(
            f"import torch._functorch.config\ntorch._functorch.config.activation_memory_budget = {value}"
        )
