"""What is compiled as one: the whole model, or each of its repeated blocks."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.profiles.profile import Profile
from advisor.tuners.blocks import NO_BLOCKS, repeated_blocks
from advisor.tuners.compiled import compiles
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics
from advisor.tuners.knobs.execution import require_compiler

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer


class CompileRegion(Knob[str]):
    """Compiles the model as a whole, or each repeated block by itself and leaves the rest eager.

    Blocks of one class share their compiled code, so compiling takes the time of one of them, however deep
    the model is. What lies between the blocks and around them stays as it was, and nothing is fused across
    their borders. A number that differs from block to block, such as an index, makes code of its own for it;
    after eight torch goes back to eager.

    It acts only together with an `execution` that compiles. No figure of our own.
    """

    semantics = Semantics.ROUNDING
    acts_on = ("forward", "backward")

    def __init__(self) -> None:
        self._compiles = False
        self._found = False

    def values(self) -> list[str]:
        return ["model", "blocks"]

    def present(self, profile: Profile) -> str:
        require_compiler(profile)
        return "model"

    def choices(self, profile: Profile) -> list[str]:
        self.check("blocks", profile)
        return self.values()

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)
        if value == "blocks" and not any(root.repeated_blocks > 1 for root in profile.roots):
            raise Refused(NO_BLOCKS)

    def prepare(self, config: Config, present: Config) -> None:
        """Learn whether anything is compiled; `execution` reads the value itself."""
        self._compiles = compiles(config)

    def call(self, function: Callable[..., Any], root: "Module", value: str) -> Callable[..., Any]:
        """The function as it is.

        Raises:
            Refused: Nothing is compiled.
        """
        if not self._compiles:
            raise Refused("compile_region needs an execution that compiles")
        self._found |= bool(repeated_blocks(root))
        return function

    def optimizer(self, optimizer: "Optimizer", value: str) -> None:
        """Look whether any root had blocks; one without is compiled as a whole.

        Raises:
            Refused: None had.
        """
        if value == "blocks" and not self._found:
            raise Refused(NO_BLOCKS)

    def change(self, value: str) -> Change:
        if value == "model":
            return Change("model = torch.compile(model)")
        return Change("for block in blocks:  # of one class\n    block.compile()")
