"""Weights of a trained model that are set to zero."""

from typing import TYPE_CHECKING

from advisor.base.unit import Unit
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics

if TYPE_CHECKING:
    from torch.nn import Module

AMOUNT = 0.5
KINDS = ("unstructured", "global", "structured")


class Pruning(Knob[str]):
    """Sets half of the weights to zero by `torch.nn.utils.prune`. It makes nothing faster.

    The zeros are multiplied as any other number (pytorch 36214): `unstructured` and `global` leave every
    tensor as large as before, and `structured` only masks whole rows. So it is tried only when it is named,
    to be seen. Without training again, half of the weights cost 99 to 65 % in accuracy; `structured` costs
    more. What does make a model faster is removing those rows and what reads them, and training again: that
    is another model, which advisor measures like any other.
    """

    semantics = Semantics.TRAINING
    units = frozenset({Unit.REQUEST})
    usual_gain = 0.0
    acts_on = ("forward",)
    named_only = True
    opt_in = True
    written = ("prune.",)

    def values(self) -> list[str]:
        return ["none", *KINDS]

    def present(self, profile: Profile) -> str:
        return "none"

    def choices(self, profile: Profile) -> list[str]:
        return ["none", *KINDS]

    def model(self, root: "Module", value: str) -> "Module":
        """Set weights of linear layers and convolutions to zero, in place.

        Raises:
            Refused: The model has neither.
        """
        import torch
        from torch.nn.utils import prune

        kinds = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
        pruned = [(module, "weight") for module in root.modules() if isinstance(module, kinds)]
        if not pruned:
            raise Refused("the model has no linear layer and no convolution")
        if value == "global":
            prune.global_unstructured(pruned, pruning_method=prune.L1Unstructured, amount=AMOUNT)
        for module, name in pruned:
            if value == "unstructured":
                prune.l1_unstructured(module, name, amount=AMOUNT)
            elif value == "structured":
                prune.ln_structured(module, name, amount=AMOUNT, n=2, dim=0)
            prune.remove(module, name)
        return root

    def change(self, value: str) -> Change:
        calls = {
            "unstructured": 'prune.l1_unstructured(module, "weight", amount=0.5)',
            "global": "prune.global_unstructured(modules, pruning_method=prune.L1Unstructured, amount=0.5)",
            "structured": 'prune.ln_structured(module, "weight", amount=0.5, n=2, dim=0)',
        }
        return Change(calls.get(value, "# keep the weights"))
