"""What a model is given of a batch, and what it is to answer, where a workload does not say so itself."""

from collections.abc import Mapping
from typing import Any

TARGETS = ("labels", "label", "target", "targets")  # keys under which a mapping has what is to be answered

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


def inputs_of(batch: Any) -> Inputs:
    """Arguments of the model: ``(input, target)`` gives its input, a mapping all but its labels by name."""
    if isinstance(batch, Mapping):
        return (), {name: value for name, value in batch.items() if name not in TARGETS}
    if isinstance(batch, tuple | list) and len(batch) == 2:
        return (batch[0],), {}
    return (batch,), {}


def target_of(batch: Any) -> Any:
    """What is to be answered; ``None`` where the batch has nothing of the kind."""
    if isinstance(batch, Mapping):
        return next((batch[name] for name in TARGETS if name in batch), None)
    return batch[1] if isinstance(batch, tuple | list) and len(batch) == 2 else None
