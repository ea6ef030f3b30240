"""The tensors of one batch of a loader, noted now and then without keeping them alive."""

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.tensors import each_tensor

if TYPE_CHECKING:
    from torch import Tensor


class NotedBatch:
    """Asks for the next batch, and has its tensors for as long as the program has them.

    Attributes:
        wanted: Whether the next batch is to be noted.
    """

    def __init__(self) -> None:
        self.wanted = False
        self.ask: Callable[[], None] = lambda: None
        self._noted: list[weakref.ref[Any]] = []

    def note(self) -> None:
        """Note the next batch in place of the last one."""
        self.wanted = True
        self.ask()

    def take(self, batch: Any) -> None:
        """This is the next one."""
        self.wanted = False
        self._noted = [weakref.ref(tensor) for tensor in each_tensor(batch)]

    def tensors(self) -> "list[Tensor]":
        """Those of the batch noted last that are still alive."""
        alive = [noted() for noted in self._noted]
        return [tensor for tensor in alive if tensor is not None]
