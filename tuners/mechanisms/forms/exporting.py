"""A model as a graph by `torch.export`, and which sizes of its inputs vary."""

import copy
from collections.abc import Sequence
from typing import Any

from advisor.profiles.events import Inputs
from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.forms.form import FAILURES, Source, first_line


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


def restored(program: Any, outputs: Sequence[Any]) -> Any:
    """Outputs of a graph in the structure that the model returns."""
    from torch.utils import _pytree as pytree

    remaining = iter(outputs)
    kept = [
        next(remaining) if isinstance(name, str) else name for name in program.graph_signature.user_outputs
    ]
    return pytree.tree_unflatten(kept, program.call_spec.out_spec)


def fits(example: Inputs, other: Inputs) -> bool:
    """Whether ``other`` has the tensors of ``example``: as many, of the same types and dimensions."""
    forms = [[(leaf.dtype, leaf.dim()) for leaf in leaves(each)] for each in (example, other)]
    return forms[0] == forms[1]


def _open_sizes(calls: Sequence[Inputs]) -> Any:
    """Of each argument what ``torch.export`` takes for the sizes that vary; ``None`` where none does."""
    import torch
    from torch.utils import _pytree as pytree

    seen: list[list[Any]] = []
    for args, kwargs in calls:
        seen.append(pytree.tree_leaves((args, kwargs)))
    leaves_of_first, structure = pytree.tree_flatten((calls[0][0], calls[0][1]))
    alike = [each for each in seen if len(each) == len(leaves_of_first)]
    sizes: list[Any] = []
    for place, leaf in enumerate(leaves_of_first):
        if not isinstance(leaf, torch.Tensor):
            sizes.append(None)
            continue
        shapes = {tuple(each[place].shape) for each in alike if isinstance(each[place], torch.Tensor)}
        shapes = {shape for shape in shapes if len(shape) == leaf.dim()}
        varies = {
            axis: torch.export.Dim.AUTO for axis in range(leaf.dim()) if len({s[axis] for s in shapes}) > 1
        }
        sizes.append(varies or None)
    if not any(sizes):
        return None
    args, kwargs = pytree.tree_unflatten(sizes, structure)
    return copy.copy((*args, kwargs)) if kwargs else args
