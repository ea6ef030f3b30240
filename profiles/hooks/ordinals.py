"""Numbers for things that must not be kept alive by being numbered."""

import weakref
from collections import deque
from typing import Any

STRONG = 4  # datasets kept because they cannot be held weakly


class Ordinals:
    """Numbers objects in the order in which they are first met, without keeping them alive if possible.

    A dataset that is made anew for every epoch would otherwise stay in memory with all before it.
    """

    def __init__(self) -> None:
        self._count = 0
        self._weak: list[tuple[int, weakref.ref[Any]]] = []
        self._strong: deque[tuple[int, Any]] = deque(maxlen=STRONG)

    def of(self, thing: Any) -> int:
        """The number of ``thing``."""
        known = self.known(thing)
        if known is not None:
            return known
        ordinal = self._count
        self._count += 1
        self._keep(thing, ordinal)
        return ordinal

    def known(self, thing: Any) -> int | None:
        """The number of ``thing`` if it has one already."""
        for ordinal, other in self._strong:
            if other is thing:
                return ordinal
        return next((ordinal for ordinal, reference in self._weak if reference() is thing), None)

    def same(self, thing: Any, ordinal: int) -> None:
        """``thing`` stands for what has this number already."""
        if self.known(thing) is None:
            self._keep(thing, ordinal)

    def _keep(self, thing: Any, ordinal: int) -> None:
        self._weak = [(n, reference) for n, reference in self._weak if reference() is not None]
        try:
            self._weak.append((ordinal, weakref.ref(thing)))
        except TypeError:  # lists cannot be held weakly
            self._strong.append((ordinal, thing))
