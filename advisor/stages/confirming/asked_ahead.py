"""What a confirmation is going to ask, asked of benches that have nothing else to do while the search ends.

Nothing of it counts by itself: where the nominee is another one, it is not looked at.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from advisor.stages.confirming.confirmation import Confirmation
from advisor.tuners.benches.crew import Crew
from advisor.tuners.space.configuration import Configuration


@dataclass
class AskedAhead:
    """Asks what the confirmation of the likely nominee asks.

    Attributes:
        crew: All benches.
        confirmation: Makes one, as if the search had ended now.
    """

    crew: Crew
    confirmation: Callable[[], Confirmation]
    _for: Configuration | None = None
    _keys: list[int] = field(default_factory=list)

    def expect(self, nominee: Configuration, score: float) -> None:
        """From now on this one is the likely nominee; what was asked for another one is not begun.

        Args:
            nominee: It.
            score: Log ratio of it, as far as that is known.
        """
        if self.crew.size == 1 or nominee == self._for:
            return
        self.crew.forget(self._keys)
        confirmation = self.confirmation()
        confirmation.gain = score
        self._for, self._keys = nominee, confirmation.ask_ahead(nominee)
