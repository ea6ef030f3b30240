"""The part ``loader`` of a step: one batch, seen once, stands in for every batch of the training loader.

``double`` and ``half`` are the same with the batch joined to itself, or cut; what a step of that size costs,
with nothing to wait for.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.loading.loaders import Loaders
from advisor.profiles.hooks.tensors import leading_size

if TYPE_CHECKING:
    from torch import Tensor


class CachedBatch:
    """Gives the training loader's iterators one batch again and again.

    The first batch that is asked for after ``begin`` is really fetched.

    Args:
        loaders: Whose training loader is meant.
        device: Where the roots live: the batch waits there already.
        size: ``1``, ``2`` for the batch joined to itself, ``0.5`` for its first half.
    """

    def __init__(self, loaders: Loaders, device: Callable[[], str], size: float = 1.0) -> None:
        self._loaders = loaders
        self._device = device
        self._size = size
        self._made: Any = None

    def begin(self) -> None:
        """Stand in from the next batch on."""
        if self._loaders.training() is None:
            raise ValueError("no DataLoader feeds the steps")
        self._loaders.replace_batches(self._give)

    def end(self) -> None:
        """Let the loader fetch again."""
        self._loaders.replace_batches(None)
        self._made = None

    def _give(self, iterator: Any, fetch: Callable[[], Any]) -> Any:
        if self._made is None:
            self._made = self._make(fetch())
        return self._made

    def _make(self, batch: Any) -> Any:
        from torch import Tensor
        from torch.utils._pytree import tree_map_only

        count = leading_size(batch)
        device = self._device()

        def there(tensor: "Tensor") -> "Tensor":
            moved = tensor if device == "cpu" else tensor.to(device)
            if self._size == 1.0 or not moved.ndim or moved.shape[0] != count:
                return moved
            return moved.repeat(2, *([1] * (moved.ndim - 1))) if self._size == 2.0 else moved[: count // 2]

        if self._size != 1.0 and (count < 2):
            return batch
        return tree_map_only(Tensor, there, batch)
