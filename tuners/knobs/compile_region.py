"""What is compiled as one: the model, each of its repeated blocks, the model with its loss, or the update."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics
from advisor.tuners.knobs.execution import DYNAMIC, require_compiler
from advisor.tuners.mechanisms.blocks import NO_BLOCKS, repeated_blocks
from advisor.tuners.mechanisms.compiled_update import compile_update, refuse_uncompilable
from advisor.tuners.mechanisms.compiling import compiles, mode_of
from advisor.tuners.mechanisms.joined_loss import JOINING, joins

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

IN_A_SCRIPT = (
    "a script calls its loss where nothing of it can be replaced: write "
    "`loss_of = torch.compile(lambda inputs, target: loss_function(model(inputs), target))` and call that"
)


class CompileRegion(Knob[str]):
    """Compiles the model as a whole, each repeated block by itself, the model with its loss, or the update.

    `blocks`: those of one class share their compiled code, so compiling takes the time of one of them,
    however deep the model is. What lies between the blocks and around them stays as it was, and nothing is
    fused across their borders. A number that differs from block to block, such as an index, makes code of
    its own for it; after eight torch goes back to eager.

    `model+loss` lets the loss be fused with the end of the model, whose output then need not be written
    out. It is tried on workload files only, where the loss is a function of its own and the model is not
    called elsewhere. `optimizer` leaves the model as it is and compiles the optimizer's update, which fuses
    the small operations of each parameter. It takes torch's own optimizers, but no fused update, closure or
    sparse gradient. The learning rate is handed over in a tensor: of a number, each new value would be
    compiled anew, and after eight torch goes back to eager.

    It acts only together with an `execution` that compiles. `model+loss` and `optimizer` are tried only
    when they are named. No figure of our own.
    """

    semantics = Semantics.ROUNDING
    units = BOTH
    usual_gain = 0.02
    compiles = True
    acts_on = ("forward", "backward", "optimizer")
    written = ("model.layer",)

    def __init__(self) -> None:
        self._compiles = False
        self._found = False
        self._how: dict[str, Any] = {}

    def values(self) -> list[str]:
        return ["model", "blocks", "model+loss", "optimizer"]

    def present(self, profile: Profile) -> str:
        require_compiler(profile)
        return "model"

    def choices(self, profile: Profile) -> list[str]:
        self.check("blocks", profile)
        return ["model", "blocks"]

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)
        if value == "blocks" and not any(root.repeated_blocks > 1 for root in profile.roots):
            raise Refused(NO_BLOCKS)
        if value == "model+loss" and profile.target_kind == "script":
            raise Refused(IN_A_SCRIPT)
        if value == "optimizer":
            refuse_uncompilable(profile)

    def prepare(self, config: Config, present: Config) -> None:
        """Learn what is compiled, and how; of `blocks` `execution` reads the value itself."""
        self._compiles = compiles(config)
        mode = mode_of(str(config.get("execution", "eager")))
        self._how = {"mode": mode, "dynamic": DYNAMIC[str(config.get("dynamic", "auto"))]}
        JOINING.on = self._compiles and config.get("compile_region") == "model+loss"

    def call(self, function: Callable[..., Any], root: "Module", value: str) -> Callable[..., Any]:
        """The function as it is; for `optimizer` without the compilation that `execution` has put around it.

        Raises:
            Refused: Nothing is compiled, or the model is called without its loss.
        """
        if not self._compiles:
            raise Refused("compile_region needs an execution that compiles")
        if value == "optimizer":
            from torch._dynamo.eval_frame import innermost_fn

            eager: Callable[..., Any] = innermost_fn(function)
            return eager
        if value == "model+loss" and not joins(root):
            raise Refused(JOINING.refusal)
        self._found |= bool(repeated_blocks(root))
        return function

    def optimizer(self, optimizer: "Optimizer", value: str) -> None:
        """Compile the update, where that is the region; look whether any root had blocks, where these are.

        Raises:
            Refused: The update cannot be compiled, or no root had blocks; one without is compiled as a whole.
        """
        if value == "optimizer" and self._compiles:
            compile_update(optimizer, **self._how)
        if value == "blocks" and not self._found:
            raise Refused(NO_BLOCKS)

    def change(self, value: str) -> Change:
        match value:
            case "blocks":
                return Change("for block in blocks:  # of one class\n    block.compile()")
            case "model+loss":
                return Change(
                    "@torch.compile\n"
                    "def loss_of(inputs, target):\n"
                    "    return loss_function(model(inputs), target)"
                )
            case "optimizer":
                return Change(
                    "optimizer = Optimizer(..., lr=torch.tensor(lr))  # each number is compiled anew\n"
                    "@torch.compile\n"
                    "def update():\n"
                    "    optimizer.step()\n"
                    "# in the loop call update(), in place of optimizer.step()"
                )
        return Change("model = torch.compile(model)")
