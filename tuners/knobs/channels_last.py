"""The memory layout of images: channels next to each other."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from advisor.base.unit import BOTH
from advisor.profiles.derived.eligibility import CONVOLUTIONS
from advisor.profiles.facts.profile import Profile, RootFacts
from advisor.tuners.knob import Change, Semantics
from advisor.tuners.on_off_knob import Switch

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

SAVED = 0.19  # of the time of convolutions: 1.23 times as fast where they are nearly all
CAVEAT = "\n# most convolutions are grouped or depthwise: elsewhere it can be slower (pytorch #53094)"


class ChannelsLast(Switch):
    """Stores images and convolution weights with the channels of one pixel side by side.

    Convolutions read that layout without reordering. Measured on a CPU: U-Net 1.23, ResNet 1.10, ViT
    1.00 times, with bf16 1.6 to 1.8; published for GPUs: 1.08 to 1.35. Volumes (5-D) use the 3-D form.
    Grouped convolutions can get slower (pytorch #53094): a model without dense ones is refused, and where
    most are grouped the code to adopt says so.

    The numbers differ by rounding (7e-6 in the loss), and dropout draws other masks since masks follow
    the layout: a first loss moved by 5e-3. Code that calls ``view`` on feature maps can fail.
    """

    semantics = Semantics.ROUNDING
    units = BOTH
    usual_gain = 0.15
    acts_on = ("forward", "backward")
    layer = 1  # outside of what execution compiles

    def __init__(self) -> None:
        self._caveat = ""

    def present(self, profile: Profile) -> str:
        dense = sum(root.dense_convolutions for root in profile.roots)
        grouped = sum(root.grouped_convolutions for root in profile.roots)
        self._caveat = CAVEAT if grouped > dense else ""
        return super().present(profile)

    def refusal(self, profile: Profile) -> str | None:
        convolutional = [root for root in profile.roots if root.dense_convolutions > 0 and _of_images(root)]
        if not convolutional:
            return "no dense convolution of images or volumes"
        flat = [r for r in convolutional if r.takes_4d_input is False and 3 not in r.convolution_dimensions]
        return "the model takes no images (4-D or 5-D input)" if len(flat) == len(convolutional) else None

    def expected(self, profile: Profile, value: str) -> float | None:
        """What convolutions save, of the time that they were recorded to take."""
        window = profile.window
        if window is None or not window.ops or window.step_ms <= 0 or value != "on":
            return None
        return 1 / (1 - SAVED * min(1.0, window.ms_of(*CONVOLUTIONS) / window.step_ms))

    def model(self, root: "Module", value: str) -> "Module":
        """Convert weights of 4 and 5 dimensions in place; other parameters stay as they are."""
        import torch

        if value == "on":
            with torch.no_grad():
                for tensor in (*root.parameters(), *root.buffers()):
                    tensor.data = _channels_last(tensor.data)
        return root

    def call(self, function: Callable[..., Any], root: "Module", value: str) -> Callable[..., Any]:
        """Wrap ``function`` so that it gets its 4-D and 5-D floating inputs in the same layout."""
        if value != "on":
            return function

        @wraps(function)
        def with_converted_inputs(*inputs: Any, **named: Any) -> Any:
            return function(
                *(_converted(item) for item in inputs),
                **{name: _converted(item) for name, item in named.items()},
            )

        return with_converted_inputs

    def change(self, value: str) -> Change:
        if value == "off":
            return Change("# model and input keep torch's contiguous layout")
        return Change(
            "model = model.to(memory_format=torch.channels_last)  # channels_last_3d for 5-D input\n"
            "input = input.to(memory_format=torch.channels_last)" + self._caveat
        )


def _of_images(root: RootFacts) -> bool:
    return not root.convolution_dimensions or max(root.convolution_dimensions) > 1


def _converted(item: Any) -> Any:
    import torch

    if isinstance(item, list | tuple) and type(item) in (list, tuple):
        return type(item)(_converted(part) for part in item)
    if isinstance(item, torch.Tensor) and item.is_floating_point():
        return _channels_last(item)
    return item


def _channels_last(tensor: "Tensor") -> "Tensor":
    import torch

    if tensor.dim() == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    if tensor.dim() == 5:
        return tensor.contiguous(memory_format=torch.channels_last_3d)
    return tensor
