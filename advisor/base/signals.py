"""Asked to stop: the first signal lets the run end in order, the second does not wait."""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_last: int | None = None


def received_signal() -> int | None:
    """The signal that ended the last run early, if one did."""
    return _last


class StopRequests:
    """While entered, SIGINT, SIGTERM and SIGHUP only set a flag that the waiting loop looks at.

    Outside the main thread signals cannot be taken over; nothing changes there.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequests":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in STOPPING}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _last
        _last = self.received
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None and number == signal.SIGHUP:
            return  # of a closed terminal it comes twice: to the session's leader and to the group
        if self.received is not None:
            os._exit(128 + number)  # supervisors see that we are gone and end their trees
        self.received = number
