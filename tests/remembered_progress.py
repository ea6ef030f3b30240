"""What a run tells its user, remembered; and a user who presses Ctrl-C."""

import signal
from collections.abc import Callable


class Told:
    """A ``Progress`` that remembers, and presses Ctrl-C when it is told something.

    Attributes:
        said: Everything, in order.
        when: What the clock said of each.
    """

    def __init__(
        self, interrupt_at: str | None = None, clock: Callable[[], tuple[float, int]] = lambda: (0.0, 0)
    ) -> None:
        self.said: list[str] = []
        self.when: list[tuple[float, int]] = []
        self._clock = clock
        self._interrupt_at = interrupt_at

    def begin(self, text: str) -> None:
        self.say(text)

    def say(self, text: str) -> None:
        self.said.append(text)
        self.when.append(self._clock())
        if self._interrupt_at is not None and self._interrupt_at in text:
            self._interrupt_at = None
            signal.raise_signal(signal.SIGINT)

    def part(self, text: str) -> None:
        self.say(text)

    def trial(self, number: int, text: str, best: str, left_s: float) -> None:
        self.say(f"trial {number}: {text}")

    def waiting(self, what: str, seconds: float) -> None:
        """Nothing is worth remembering of it."""

    def warn(self, text: str) -> None:
        self.said.append(f"warning: {text}")
        self.when.append(self._clock())
