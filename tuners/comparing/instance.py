"""One instance of a confirmation, as asked of whoever has the machine: what to start, in which order."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from advisor.tuners.comparing.duel import Arena, Duel
from advisor.tuners.comparing.ways import LIVE, WINDOWS
from advisor.tuners.knob import Value


class Instance(msgspec.Struct, frozen=True):
    """A pair of fresh processes; all that a measurement of it depends on beside the program and its machine.

    Plain values that can be written down and sent; it is told apart by its place.

    Attributes:
        place: In the confirmation, from 0 on; never by who was done first.
        first: Settings of what is compared with.
        second: Settings of the candidate.
        how: One of ``comparing.ways``.
        quads: How many at most.
        number: Of the trial, for its records.
        hold: The candidate's process goes on in the arena that measured it.
        first_start: How else a process of ``first`` is started (``Launcher.start``).
        second_start: The same of ``second``.
    """

    place: int
    first: dict[str, Value]
    second: dict[str, Value]
    how: str
    quads: int
    number: int = 0
    hold: bool = False
    first_start: dict[str, int] = {}
    second_start: dict[str, int] = {}

    @property
    def swapped(self) -> bool:
        """The candidate starts first and takes the first turn, in every other instance."""
        return self.place % 2 == 0

    def measured(self, arena: Arena) -> Duel:
        """What it gives in this arena.

        Raises:
            TrialFailed: As of ``Arena.duel``.
        """

        with self._started_so(arena):
            return arena.duel(
                self.first,
                self.second,
                how=self.how,
                quads=self.quads,
                swapped=self.swapped,
                number=self.number,
                followed=self.swapped,
                hold=self.hold,
            )

    def begin(self, arena: Arena) -> bool:
        """Start its processes while one of the program goes on in which nothing is timed.

        Returns:
            Whether they were: they must fit into memory together, and have a CPU each.
        """
        windows = self.how == WINDOWS and arena.start_together(self.first, self.second)
        live = self.how == LIVE and self.swapped  # the second one waits for the next instance
        if not (arena.three_fit and arena.at_once and (windows or live)):
            return False
        arms = (self.second, self.first) if self.swapped else (self.first, self.second)
        with self._started_so(arena):
            return arena.ahead.begin(arms, arena.starting(self.how, self.number))

    @contextmanager
    def _started_so(self, arena: Arena) -> Iterator[None]:
        def start(config: Mapping[str, Value]) -> Mapping[str, int]:
            return self.first_start if config == self.first else self.second_start

        arena.more = start
        try:
            yield
        finally:
            arena.more = lambda config: {}
