"""How the norm of all gradients is taken for clipping."""

import inspect
from collections.abc import Callable
from typing import Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics
from advisor.tuners.mechanisms.computed import gradient_norms

DEFAULTS = {"on": None, "off": False}  # None, not True: torch takes groups wherever it can
UNSEEN = "the program was not seen to clip gradients by their norm"
ONE_BY_ONE = (
    "norms of gradients are taken one by one although torch would group them: the program asks for "
    "foreach=False, or has code of its own"
)


class ClipGradForeach(Knob[str]):
    """Takes norms of gradients in groups (`on`) or one by one (`off`) in `clip_grad_norm_`.

    Groups save the time between many small operations. torch groups by itself on CPUs and GPUs, so a
    program that leaves `foreach` out has it on; `off` needs less memory for the intermediate results and
    can be faster where gradients are few and large. The effect was not measured. Sums are taken in
    another order.

    What changes is the default of the argument, so programs that pass `foreach` themselves keep theirs.
    """

    semantics = Semantics.ROUNDING
    live = True

    def values(self) -> list[str]:
        return ["off", "on"]

    def present(self, profile: Profile) -> str:
        return "off" if gradient_norms(profile) == "for-loop" else "on"

    def choices(self, profile: Profile) -> list[str]:
        if gradient_norms(profile) is None:
            raise Refused("no operators were recorded, so whether the program clips is not known")
        self.check("off", profile)
        return ["on", "off"]

    def check(self, value: str, profile: Profile) -> None:
        norms = gradient_norms(profile)
        if norms == "none":
            raise Refused(UNSEEN)
        if norms == "for-loop":
            raise Refused(ONE_BY_ONE)

    def process(self, value: str) -> None:
        """Set the default of the argument ``foreach``.

        Raises:
            Refused: Something else has taken the place of ``clip_grad_norm_``.
        """
        import torch

        function: Any = inspect.unwrap(torch.nn.utils.clip_grad_norm_)
        function.__defaults__ = _with_default(function, DEFAULTS[value])

    def change(self, value: str) -> Change:
        return Change(f"torch.nn.utils.clip_grad_norm_(..., foreach={value == 'on'})")


def _with_default(function: Callable[..., Any], foreach: bool | None) -> tuple[Any, ...]:
    """The defaults of a function, with another one for its argument ``foreach``."""
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty
    }
    if "foreach" not in defaults:
        raise Refused("torch.nn.utils.clip_grad_norm_ was replaced by a function without foreach")
    return tuple({**defaults, "foreach": foreach}.values())
