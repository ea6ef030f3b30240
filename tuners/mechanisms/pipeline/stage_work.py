"""How much the calls of a forward compute, for dividing them evenly, and the division."""

from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.pooling import _AdaptiveAvgPoolNd, _AdaptiveMaxPoolNd, _AvgPoolNd, _MaxPoolNd

SIDE = 32.0  # positions along an image whose size is not known; only later sizes relative to it matter


class Work:
    """Multiplications per sample of one module after another, from their weights.

    A linear layer uses each weight once per position, a convolution once at every place of its output,
    which strides make fewer. Looking up rows of a table computes nothing.
    """

    def __init__(self) -> None:
        self._side = SIDE

    def of(self, module: nn.Module) -> float:
        """The work of a module that comes next."""
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            return 0.0
        if isinstance(module, _ConvNd):
            return self._convolution(module)
        if isinstance(module, _AdaptiveAvgPoolNd | _AdaptiveMaxPoolNd):
            self._side = float(_first(module.output_size) or self._side)
        elif isinstance(module, _AvgPoolNd | _MaxPoolNd):
            self._side = max(1.0, self._side / _first(module.stride))
        own = sum(parameter.numel() for parameter in module.parameters(recurse=False))
        return own + sum(self.of(child) for child in module.children())

    def _convolution(self, module: _ConvNd) -> float:
        stride = float(_first(module.stride))
        self._side = max(1.0, self._side * stride if module.transposed else self._side / stride)
        return float(module.weight.numel() * self._side ** len(module.kernel_size))


def divided(works: Sequence[float], count: int) -> list[int]:
    """Where ``count`` parts of consecutive works begin, such that the largest part is as small as can be.

    Args:
        works: At least ``count`` of them.
        count: Parts, none of them empty.
    """
    low, high = max(works), sum(works)
    for _ in range(60):  # halves the interval until it is narrower than rounding
        middle = (low + high) / 2
        low, high = (low, middle) if len(_begins(works, middle)) <= count else (middle, high)
    return _begins(works, high, count)


def _begins(works: Sequence[float], limit: float, least: int = 1) -> list[int]:
    """Parts that hold as much as they may, at least so many of them."""
    begins, held = [0], 0.0
    for at, work in enumerate(works):
        none_to_spare = len(works) - at == least - len(begins)
        if at > begins[-1] and (held + work > limit * (1 + 1e-9) or none_to_spare):
            begins.append(at)
            held = 0.0
        held += work
    return begins


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, tuple | list) else value
