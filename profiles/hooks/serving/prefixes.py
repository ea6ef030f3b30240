"""Tokens that a model computes again in each call of a generation, for want of a cache of keys and values."""

from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.tensors import each_tensor

if TYPE_CHECKING:
    from torch import Tensor

LOOKED = 512  # calls
SHORTEST = 2  # tokens; one alone is no prefix


class Prefixes:
    """Compares the token numbers of each call with those of the call before."""

    def __init__(self) -> None:
        self._calls = self._all = self._again = self._longer = self._lengths = 0
        self._before: Tensor | None = None

    def look(self, inputs: Any) -> None:
        """At a call of a model."""
        if self._calls >= LOOKED:
            self._before = None
            return
        tokens = next(
            (each for each in each_tensor(inputs) if each.dim() == 2 and not each.is_floating_point()), None
        )
        before, self._before = self._before, tokens
        if tokens is None:
            return
        self._calls += 1
        self._all += tokens.numel()
        if before is not None and _continues(tokens, before):
            self._again += before.numel()
            self._longer += 1
            self._lengths += before.shape[1]

    @property
    def again(self) -> float | None:
        """Share of all tokens that the call before had computed; ``None`` without tokens."""
        return self._again / self._all if self._all else None

    @property
    def length(self) -> float | None:
        """Mean number of tokens computed again by a call that does so; ``None`` where none does."""
        return self._lengths / self._longer if self._longer else None


def _continues(tokens: "Tensor", before: "Tensor") -> bool:
    """Whether these are the tokens of before and more. Tensors of one value (masks) do not count."""
    rows, length = before.shape
    if length < SHORTEST or tokens.shape[0] != rows or tokens.shape[1] <= length:
        return False
    if tokens.dtype != before.dtype or bool((before == before[0, 0]).all()):
        return False
    return bool((tokens[:, :length] == before).all())
