"""Whether a model that only answers records what autograd would need."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from advisor.base.unit import Unit
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics

if TYPE_CHECKING:
    from torch.nn import Module

MODES = ("grad", "no_grad", "inference_mode")  # each records less than the one before


class InferenceMode(Knob[str]):
    """Calls the model with gradients, under ``torch.no_grad``, or under ``torch.inference_mode``.

    With a graph recorded 0.83 to 0.94 of the speed were left on a CPU; inference mode, which also leaves out
    counters of versions and views, gave 1.00 to 1.08 over ``no_grad``. What comes out of it cannot be used in
    autograd later: a program that does so fails, and keeps what it has.
    """

    semantics = Semantics.EXACT
    units = frozenset({Unit.REQUEST})
    usual_gain = 0.05
    live = True
    acts_on = ("forward",)

    def values(self) -> list[str]:
        return list(MODES)

    def present(self, profile: Profile) -> str:
        mode = profile.run.requests_mode if profile.run is not None else None
        if mode is None:
            raise Refused("no request was seen")
        return mode

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        less = list(MODES[MODES.index(present) + 1 :])
        if not less:
            raise Refused("the model is called under torch.inference_mode already")
        return [present, *less]

    def check(self, value: str, profile: Profile) -> None:
        if MODES.index(value) < MODES.index(self.present(profile)):
            raise Refused("inside a context that records less it would have no effect")

    def forward(self, root: "Module", value: str) -> AbstractContextManager[Any] | None:
        """The context around one call of the model."""
        import torch

        match value:
            case "no_grad":
                return torch.no_grad()
            case "inference_mode":
                return torch.inference_mode()
        return None

    def change(self, value: str) -> Change:
        if value == "grad":
            return Change("# call the model without torch.no_grad or torch.inference_mode")
        return Change(f"with torch.{value}():\n    output = model(input)")
