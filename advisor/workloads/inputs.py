"""What a model is given of a batch, and what it is to answer, where a workload does not say so itself."""

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.nn import Module

TARGETS = ("labels", "label", "target", "targets")  # keys under which a mapping has what is to be answered

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


def inputs_of(batch: Any, needed: int = 1) -> Inputs:
    """Arguments of the model: ``(input, target)`` gives its input, a mapping all but its labels by name.

    A model that needs several arguments is given the parts of the input one by one: all of a batch of so
    many parts, all but the last of one that has one more, or those of ``((first, second), target)``.

    Args:
        batch: What the dataset gives.
        needed: Arguments that the model cannot be called without.
    """
    if isinstance(batch, Mapping):
        return (), {name: value for name, value in batch.items() if name not in TARGETS}
    return _taken_apart(batch, needed)[0], {}


def target_of(batch: Any, needed: int = 1) -> Any:
    """What is to be answered; ``None`` where the batch has nothing of the kind.

    Args:
        batch: What the dataset gives.
        needed: Arguments that the model cannot be called without.
    """
    if isinstance(batch, Mapping):
        return next((batch[name] for name in TARGETS if name in batch), None)
    return _taken_apart(batch, needed)[1]


def _taken_apart(batch: Any, needed: int) -> tuple[tuple[Any, ...], Any]:
    """Arguments and target of what is no mapping."""
    if not isinstance(batch, tuple | list):
        return (batch,), None
    first = batch[0] if len(batch) == 2 else None
    if needed > 1 and isinstance(first, tuple | list) and len(first) == needed:
        return tuple(first), batch[1]
    if needed > 1 and len(batch) in (needed, needed + 1):
        return tuple(batch[:needed]), batch[needed] if len(batch) > needed else None
    return ((batch[0],), batch[1]) if len(batch) == 2 else ((batch,), None)


def arguments_needed(model: "Module") -> int:
    """Positional arguments of a model's forward that have no default, at least 1."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):  # of a forward that is not written in Python
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return max(1, sum(each.kind in kinds and each.default is each.empty for each in parameters))
