"""The moment before a program makes its first iterator of a loader: nothing of its data was asked for yet."""

import os
from _thread import get_ident
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.patches import Patch

if TYPE_CHECKING:
    from torch.utils.data import DataLoader


class FirstIterator:
    """Calls a function at that moment, once; in this process and thread alone. Torch must be imported.

    Args:
        then: What is called.
    """

    def __init__(self, then: Callable[[], None]) -> None:
        from torch.utils.data import DataLoader

        self._then: Callable[[], None] | None = then
        self._where = os.getpid(), get_ident()
        self._patch = Patch(DataLoader, "__iter__", self._wrap)

    def install(self) -> None:
        """Wait for it from now on."""
        self._patch.install()

    def _wrap(self, original: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def __iter__(loader: "DataLoader[Any]") -> Iterator[Any]:
            then = self._then
            if then is not None and (os.getpid(), get_ident()) == self._where:
                self._then = None
                self._patch.remove()
                then()
            return original(loader)

        return __iter__
