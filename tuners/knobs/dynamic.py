"""Whether compiled code is made for one shape or for all."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics
from advisor.tuners.knobs.execution import DYNAMIC, require_compiler
from advisor.tuners.mechanisms.compiling import compiles

if TYPE_CHECKING:
    from torch.nn import Module


class Dynamic(Knob[str]):
    """The argument `dynamic` of `torch.compile`: shapes are fixed (`off`), left open (`on`), or learnt.

    `auto` compiles for the first shape, and when another one comes, once more with the sizes open that have
    changed. `on` leaves all sizes open from the start: one compilation, but often slower code. `off` compiles
    for every new shape; after eight times torch goes back to eager.

    It acts only together with an `execution` that compiles, and only where shapes vary. No figure of our own.
    """

    semantics = Semantics.ROUNDING
    units = BOTH
    usual_gain = 0.02
    compiles = True
    acts_on = ("forward", "backward")

    def __init__(self) -> None:
        self._compiles = False

    def values(self) -> list[str]:
        return list(DYNAMIC)

    def present(self, profile: Profile) -> str:
        require_compiler(profile)
        return "auto"

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        if profile.loader is not None and profile.loader.shapes_vary is False:
            raise Refused("all batches have one shape, for which torch.compile makes its code by itself")
        return [present, "on", "off"]

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)

    def prepare(self, config: Config, present: Config) -> None:
        """Learn whether anything is compiled; `execution` reads the value itself."""
        self._compiles = compiles(config)

    def call(self, function: Callable[..., Any], root: "Module", value: str) -> Callable[..., Any]:
        """The function as it is.

        Raises:
            Refused: Nothing is compiled.
        """
        if not self._compiles:
            raise Refused("dynamic needs an execution that compiles")
        return function

    def change(self, value: str) -> Change:
        return Change(f"model = torch.compile(model, dynamic={DYNAMIC[value]})")
