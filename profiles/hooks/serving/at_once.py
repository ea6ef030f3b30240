"""What a model takes for more or less than a request gave it."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.serving.timing import fastest_s
from advisor.profiles.hooks.tensors import tensor_type

if TYPE_CHECKING:
    from torch import Tensor

TIMES = 8
LONGEST_S = 0.25  # of a call, beyond which nothing is tried

Call = Callable[..., Any]


def eight_at_once(function: Call, args: Any, kwargs: Any) -> float | None:
    """The time of a call with eight copies of a sample over that of one.

    Returns:
        ``None`` where the input is not one sample in tensors alone, it takes long, or the model does not take
        eight.
    """
    return _compared(function, args, kwargs, _repeated)


def last_token(function: Call, args: Any, kwargs: Any) -> float | None:
    """The time of a call with the last token of a text over that of the whole text.

    Returns:
        ``None`` where the input is not tokens alone, it takes long, or the model does not take one.
    """
    return _compared(function, args, kwargs, _last)


def _compared(function: Call, args: Any, kwargs: Any, change: "Callable[[Tensor], Tensor]") -> float | None:
    try:
        other, named = _changed(tuple(args), change), _changed(dict(kwargs), change)
    except ValueError:
        return None
    began = time.perf_counter()
    function(*args, **kwargs)
    if time.perf_counter() - began > LONGEST_S:
        return None
    try:
        before, after = fastest_s(lambda: function(*args, **kwargs), lambda: function(*other, **named))
    except Exception:  # whatever a model raises at a size that it was not made for
        return None
    return after / before


def _repeated(tensor: "Tensor") -> "Tensor":
    import torch

    if not tensor.dim() or tensor.shape[0] != 1 or tensor.is_quantized:
        raise ValueError("not one sample")
    return torch.cat([tensor] * TIMES)


def _last(tensor: "Tensor") -> "Tensor":
    if tensor.dim() != 2 or tensor.is_floating_point():
        raise ValueError("no tokens")
    return tensor[:, -1:]


def _changed(value: Any, change: "Callable[[Tensor], Tensor]") -> Any:
    """The same with every tensor changed.

    Raises:
        ValueError: It holds something else, which may have a size of its own.
    """
    if isinstance(value, tensor_type()):
        return change(value)
    if type(value) in (tuple, list):
        return type(value)(_changed(part, change) for part in value)
    if isinstance(value, Mapping):
        return {name: _changed(part, change) for name, part in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError("an input that is no tensor")
