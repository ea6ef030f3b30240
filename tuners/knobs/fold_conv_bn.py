"""Batch norms behind convolutions become part of their weights."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from advisor.base.unit import Unit
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.on_off_knob import Switch

if TYPE_CHECKING:
    from torch.nn import Module


class FoldConvBn(Switch):
    """Multiplies what a batch norm does in evaluation into the convolution before it, and leaves it out.

    Published, together with a layout: ResNet-50 0.486 to 0.294 s, densenet161 0.955 to 0.893 s (pytorch
    53805). Roundings move. Folded are convolutions whose output goes into one batch norm only, as a
    symbolic trace shows; a model that decides by values cannot be traced. It must be in evaluation mode.
    """

    semantics = Semantics.ROUNDING
    units = frozenset({Unit.REQUEST})
    usual_gain = 0.1
    acts_on = ("forward",)
    layer = -1  # before layouts are changed and anything is compiled

    def refusal(self, profile: Profile) -> str | None:
        if not any(root.has_batch_norm and root.convolution_dimensions for root in profile.roots):
            return "no batch norm follows a convolution"
        if profile.run is not None and profile.run.requests_in_training_mode:
            return "the model is in training mode, where a batch norm takes its statistics from the batch"
        return None

    def model(self, root: "Module", value: str) -> "Module":
        """Fold in place.

        Raises:
            Refused: Nothing can be folded, or nothing is known of the order of its modules.
        """
        if value != "on":
            return root
        from torch.nn import Identity
        from torch.nn.utils.fusion import fuse_conv_bn_eval

        for conv, norm in _pairs(root):
            first: Any = root.get_submodule(conv)
            second: Any = root.get_submodule(norm)
            _replace(root, conv, fuse_conv_bn_eval(first, second))
            _replace(root, norm, Identity())
        return root

    def change(self, value: str) -> Change:
        if value == "off":
            return Change("# leave batch norms where they are")
        return Change("model = torch.fx.experimental.optimization.fuse(model.eval())")


def _pairs(root: "Module") -> list[tuple[str, str]]:
    """Names of convolutions and of the batch norms that alone take their outputs."""
    import torch
    from torch import nn

    try:
        graph = torch.fx.symbolic_trace(root).graph
    except Exception as error:  # a trace raises whatever the model raises when it is given no values
        raise Refused(f"its modules cannot be traced: {type(error).__name__}") from None
    convolutions = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
    norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    calls = Counter(str(node.target) for node in graph.nodes if node.op == "call_module")
    found: list[tuple[str, str]] = []
    for node in graph.nodes:
        before: Any = node.args[0] if node.op == "call_module" and node.args else None
        if before is None or getattr(before, "op", "") != "call_module" or len(before.users) != 1:
            continue
        conv, norm = str(before.target), str(node.target)
        first, second = root.get_submodule(conv), root.get_submodule(norm)
        if type(first) not in convolutions or not isinstance(second, norms) or calls[conv] + calls[norm] > 2:
            continue
        if not second.training and second.running_mean is not None:
            found.append((conv, norm))
    if not found:
        raise Refused("no batch norm directly follows a convolution in evaluation mode")
    return found


def _replace(root: "Module", name: str, module: "Module") -> None:
    parent, _, last = name.rpartition(".")
    setattr(root.get_submodule(parent), last, module)
