"""A model whose forward changes more than its output: an exported or traced form does not do that."""

from typing import TYPE_CHECKING, Any

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.exporting import leaves
from advisor.tuners.mechanisms.forms.form import FAILURES, Source, first_line

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


def refuse_memory(source: Source) -> None:
    """Call a copy of the model twice, and see whether the second call leaves its tensors as they were.

    What the first call fills is a cache; what the second one changes is a state, on which answers depend.

    Raises:
        Refused: Buffers, tensors kept as attributes, or inputs are changed; which. Or it cannot be called.
    """
    import torch

    try:
        model = source.copied()
        with torch.no_grad():
            _called(source, model)
            before = {name: tensor.clone() for name, tensor in _kept(model).items()}
            inputs = _called(source, model)
        after = _kept(model)
    except FAILURES as error:
        raise Refused(f"a copy of the model cannot be called: {first_line(error)}") from None
    changed = [name for name, tensor in after.items() if not _same(tensor, before.get(name))]
    if changed or inputs:
        names = ", ".join(changed[:3]) or "its inputs"
        raise Refused(f"its forward changes {names} as well, which such a form would not do")


def _called(source: Source, model: "Module") -> bool:
    """Whether a call changed its inputs, which are copies."""
    import torch
    from torch.utils import _pytree as pytree

    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, source.example)
    type(model).forward(model, *args, **kwargs)
    pairs = zip(leaves(source.example), leaves((args, kwargs)), strict=True)
    return not all(_same(own, given) for own, given in pairs)


def _kept(model: "Module") -> "dict[str, Tensor]":
    """Buffers, and tensors that are plain attributes of a module."""
    import torch

    found: dict[str, Any] = dict(model.named_buffers())
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                found[f"{name}.{key}" if name else key] = value
    return found


def _same(own: "Tensor", other: "Tensor | None") -> bool:
    """Whether they hold the same, NaN included."""
    import torch

    if other is None or own.shape != other.shape or own.dtype != other.dtype:
        return False
    return own is other or bool(torch.all((own == other) | ((own != own) & (other != other))))
