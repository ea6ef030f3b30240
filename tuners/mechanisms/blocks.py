"""The repeated blocks of a model: modules of one class that stand side by side in a container."""

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.nn import Module


NO_BLOCKS = "the model has no two blocks of one class, side by side in a Sequential or ModuleList"


def repeated_blocks(root: "Module") -> "list[Module]":
    """The outermost ones, in the order of the model.

    As ``RootFacts.repeated_blocks`` counts them: children of a ``ModuleList`` or ``Sequential`` of which at
    least two have one class, and which have parts of their own. Containers that cannot be called are no
    blocks; what they hold may be.
    """
    from torch.nn import ModuleDict, ModuleList, Sequential

    children = list(root.children())
    kinds: Counter[type] = Counter()
    if isinstance(root, (ModuleList, Sequential)):
        kinds.update(type(child) for child in children if _has_parts(child))
    found: list[Module] = []
    for child in children:
        is_block = kinds[type(child)] > 1 and _has_parts(child)
        if is_block and not isinstance(child, (ModuleDict, ModuleList)):
            found.append(child)
        else:
            found.extend(repeated_blocks(child))
    return found


def _has_parts(module: "Module") -> bool:
    return next(module.children(), None) is not None
