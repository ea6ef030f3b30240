"""A model as a graph by `torch.export`, and which sizes of its inputs vary."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from advisor.profiles.events import Inputs
from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.form import FAILURES, Source, first_line

if TYPE_CHECKING:
    from torch import Tensor


def exported(source: Source) -> Any:
    """The exported program of the model, for inference.

    Sizes that differ between the samples of the calibration are left open, others are fixed: code for fixed
    sizes is faster.

    Raises:
        Refused: torch cannot export it.
    """
    import torch

    args, kwargs = source.example
    shapes = source.dynamic
    if shapes is None:
        shapes = _open_sizes([source.example, *source.calibration])
    try:
        with torch.no_grad():
            return torch.export.export(source.copied(), args, kwargs, dynamic_shapes=shapes)
    except FAILURES as error:
        raise Refused(f"torch.export: {first_line(error)}") from None


def leaves(inputs: Inputs) -> list[Any]:
    """Tensors among the arguments, in the order in which an exported program takes them."""
    import torch
    from torch.utils import _pytree as pytree

    args, kwargs = inputs
    return [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]


def restoring(program: Any) -> Callable[[Sequence[Any]], Any]:
    """What puts outputs of a graph into the structure that the model returns, in every request.

    What the graph says of them is asked once: that takes 50 us.
    """
    from torch.utils import _pytree as pytree

    names, form = program.graph_signature.user_outputs, program.call_spec.out_spec

    def restore(outputs: Sequence[Any]) -> Any:
        remaining = iter(outputs)
        kept = [next(remaining) if isinstance(name, str) else name for name in names]
        return pytree.tree_unflatten(kept, form)

    return restore


Sizes = tuple[int | None, ...]


def sizes_of(program: Any) -> list[Sizes]:
    """Of each tensor that an exported program takes, in order; ``None`` for one that is left open."""
    taken = set(program.graph_signature.user_inputs)
    values = [
        node.meta.get("val")
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in taken
    ]
    return [
        tuple(size if type(size) is int else None for size in value.shape)
        for value in values
        if hasattr(value, "shape")
    ]


def fits(example: Inputs, other: Inputs) -> bool:
    """Whether ``other`` differs from ``example`` in no more than the values and sizes of its tensors."""
    return fitting(example)(other) is not None


def fitting(
    example: Inputs, sizes: Sequence[Sizes] | None = None
) -> Callable[[Inputs], "list[Tensor] | None"]:
    """What gives the tensors of a call that what was made for ``example`` may answer, ``None`` of another.

    Such a call has as many tensors of the same types and dimensions, and in all else the same values, which
    are a part of what was exported: flags, numbers, ``None``. It is asked in every request, and what the
    example is like but once: that takes as long as a small model.

    Args:
        example: The call for which a form was made.
        sizes: Those that each tensor must have, as ``sizes_of`` gives them; ``None`` for any.
    """
    import torch
    from torch.utils import _pytree as pytree

    first, form = pytree.tree_flatten(example)
    kinds = [(leaf.dtype, leaf.dim()) if isinstance(leaf, torch.Tensor) else None for leaf in first]

    def tensors(call: Inputs) -> "list[Tensor] | None":
        second, other = pytree.tree_flatten(call)
        if form != other:
            return None
        found = []
        for own, kind, given in zip(first, kinds, second, strict=True):
            if kind is None:
                if type(own) is not type(given) or own != given:
                    return None
            elif not isinstance(given, torch.Tensor) or (given.dtype, given.dim()) != kind:
                return None
            else:
                found.append(given)
        if sizes is not None and not all(map(_sized, sizes, found)):
            return None
        return found

    return tensors


def _sized(sizes: Sizes, tensor: "Tensor") -> bool:
    """Whether a tensor has the sizes that are fixed."""
    return all(fixed is None or fixed == size for fixed, size in zip(sizes, tensor.shape, strict=True))


def _open_sizes(calls: Sequence[Inputs]) -> Any:
    """Which sizes vary, as ``torch.export`` takes it; ``None`` where none does."""
    import torch

    alike = [leaves(call) for call in calls if fits(calls[0], call)]
    shapes = torch.export.ShapesCollection()
    varies = False
    for tensor, *others in zip(*alike, strict=True):
        open_ = {
            axis: torch.export.Dim.AUTO
            for axis in range(tensor.dim())
            if any(each.size(axis) != tensor.size(axis) for each in others)
        }
        if open_:
            varies = True
            shapes[tensor] = open_
    return shapes if varies else None
