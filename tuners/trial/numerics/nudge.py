"""A run whose initial weights are moved by a few roundings: how far rounding grows in it."""

from typing import TYPE_CHECKING

from advisor.tuners.knob import Knob, Semantics

if TYPE_CHECKING:
    from torch import Generator, Tensor
    from torch.nn import Module

NAME = "nudge"
ROUNDINGS = 8
"""Of a weight's type: 2**-20 relative for float32. A layer adds up tens to thousands of products, and n of
them in another order differ by about sqrt(n) roundings. By 8, the first gradients of a U-Net moved by 1e-7
to 7e-7, by `channels_last` they moved by 9e-7."""


class Nudge(Knob[int]):
    """Moves each weight once, before the first step, a few roundings up or down.

    No knob to be tried, so not among ``knobs/``: only the numerics gate asks for it. Its value is the seed
    of the directions. They come from a generator of their own, since a draw from the program's would change
    its batches and its dropout masks. Weights of 16 bits stay: one rounding of those is no small change.
    """

    semantics = Semantics.ROUNDING
    layer = 80  # after the knobs that are in place have cast and laid out what is moved

    def model(self, root: "Module", value: int) -> "Module":
        """Move the parameters of ``root`` in place; those of 0 stay 0."""
        import torch

        generator = torch.Generator().manual_seed(value)
        with torch.no_grad():
            for parameter in root.parameters():
                if parameter.dtype in (torch.float32, torch.float64):
                    _move(_local(parameter), generator)
        return root


def _local(parameter: "Tensor") -> "Tensor":
    """This rank's part of a parameter that several share."""
    local: Tensor = parameter.to_local() if hasattr(parameter, "to_local") else parameter
    return local


def _move(parameter: "Tensor", generator: "Generator") -> None:
    import torch

    signs = torch.randint(0, 2, parameter.shape, generator=generator).to(parameter).mul_(2).sub_(1)
    parameter.mul_(signs.mul_(ROUNDINGS * torch.finfo(parameter.dtype).eps).add_(1))
