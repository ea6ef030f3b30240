"""Splitting each batch of the reference loop into micro-batches, between which nothing is updated."""

from dataclasses import dataclass
from typing import Any


@dataclass
class Splitting:
    """How the loop splits its batches; set between two steps.

    Attributes:
        parts: Micro-batches of one batch.
        used: Whether a loop asks at all; the loop of a script does not.
        refusal: Why the last batch could not be split, if it could not.
    """

    parts: int = 1
    used: bool = False
    refusal: str | None = None

    def split(self, batch: Any) -> list[tuple[Any, float]]:
        """The micro-batches of one batch, each with the share (0 to 1) of the samples that it holds.

        The last batch of an epoch may be smaller and is split as evenly as it can be. A batch that cannot
        be split is returned whole.
        """
        self.used = True
        if self.parts == 1:
            return [(batch, 1.0)]
        from torch.utils._pytree import tree_flatten, tree_unflatten

        leaves, structure = tree_flatten(batch)
        self.refusal = _refusal(leaves)
        if self.refusal is not None:
            return [(batch, 1.0)]
        samples = leaves[0].size(0)
        chunks = [leaf.split(-(-samples // self.parts)) for leaf in leaves]
        return [
            (tree_unflatten(part, structure), part[0].size(0) / samples)
            for part in map(list, zip(*chunks, strict=True))
        ]


def _refusal(leaves: list[Any]) -> str | None:
    import torch

    if not all(isinstance(leaf, torch.Tensor) and leaf.dim() for leaf in leaves):
        return "a batch holds more than tensors of samples, so it cannot be split"
    if len({leaf.size(0) for leaf in leaves}) != 1:
        return "the tensors of a batch differ in their number of samples, so it cannot be split"
    return None


SPLITTING = Splitting()
"""What the reference loop of this process does."""
