"""A call that may be left out when it would take too large a share of the time."""

import time
from collections.abc import Callable


class Seldom:
    """Calls an action at once the first time, later only when it takes at most ``share`` of the time.

    Args:
        action: What is called; how long it took the last time says when it may be called again.
        share: Of the time since the last call ended, as a fraction of 1.
        clock: Seconds, monotonic.
    """

    def __init__(
        self, action: Callable[[], None], share: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.action, self.share, self.clock = action, share, clock
        self._not_before = -float("inf")

    def __call__(self) -> None:
        """Call the action, unless it was called too lately."""
        began = self.clock()
        if began < self._not_before:
            return
        self.action()
        ended = self.clock()
        self._not_before = ended + (ended - began) / self.share
