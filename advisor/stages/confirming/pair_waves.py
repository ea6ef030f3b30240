"""Pairs of a confirmation on several nodes at once: both orders of roles on each, in waves between looks.

All pairs of a wave count, at their places, before a look is taken: a decision sees every node of it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from advisor.tuners.benches.crew import Begun, Came, Crew, Task
from advisor.tuners.benches.messages import Answer, Paired, RunInstances
from advisor.tuners.comparing.duel import Duel
from advisor.tuners.comparing.instance import Instance
from advisor.tuners.comparing.looks import LOOKS
from advisor.tuners.comparing.pair_places import Where
from advisor.tuners.supervision.failures import Failure, TrialFailed

Duels = list[Duel]


@dataclass
class PairWaves:
    """Has benches measure pairs, and hands them out in order.

    Attributes:
        crew: All benches.
        asked: What is asked of a place; whether its process is to be held.
        here: Measures one in this process; ``None`` where it is too late. Told how many come with it.
        where: Each pair was measured that was handed out, after those of earlier parts.
        enough: Pairs that probably confirm what is expected: others have time for something else.
        until: Time of the clock up to which others are waited for.
    """

    crew: Crew
    asked: Callable[[int, bool], Instance]
    here: Callable[[Instance, int], Duel | None]
    where: list[Where] = field(default_factory=list)
    enough: int = LOOKS[-1]
    until: float = math.inf
    _ready: dict[int, tuple[Duel | Failure, Where]] = field(default_factory=dict)
    _begun: Begun[Duels] | None = None
    _places: list[Sequence[int]] = field(default_factory=list)

    def begin(self, there: int, benches: int) -> None:
        """Have other benches begin with the wave after so many pairs; this process does something else.

        Args:
            there: Pairs that were measured.
            benches: Others that have nothing else to do.
        """
        if there < LOOKS[-1]:
            self._begin(there, benches, free=True)

    def ask_ahead(self, there: int, benches: int) -> list[int]:
        """Have them measure that wave once they have nothing else to do; as ``begin`` and ``Crew.ahead``."""
        if there >= LOOKS[-1]:
            return []
        wave = chunks(there, wave_end(there, benches, self.enough))
        asked = [self._task(places, own=False).asked for places in wave]
        return self.crew.ahead([each for each in asked if each is not None])

    def has(self, place: int) -> bool:
        """Whether the pair of a place was measured, with others of its wave."""
        return place in self._ready

    def drop(self) -> None:
        """Want no more of what was begun."""
        if self._begun is not None:
            self.crew.drop(self._begun)
            self._begun = None

    def next(self, place: int) -> Duel | None:
        """The pair of a place; ``None`` where it is too late to measure it.

        Raises:
            TrialFailed: It failed.
        """
        if place not in self._ready:
            self._measure(place)
        if place not in self._ready:
            return None
        found, where = self._ready.pop(place)
        self.where += [Where()] * (place - len(self.where))
        self.where.append(where)
        if isinstance(found, Failure):
            raise TrialFailed(found)
        return found

    def _begin(self, there: int, benches: int, *, free: bool) -> Begun[Duels]:
        """Hand out a wave; unless this process is busy its first places are its own."""
        end = wave_end(there, benches, self.enough)
        self._places = chunks(there, end)
        tasks = [self._task(places, own=not free and places[0] == there) for places in self._places]
        self._begun = self.crew.begin(tasks)
        return self._begun

    def _measure(self, there: int) -> None:
        begun = self._begun or self._begin(there, self.crew.size, free=False)
        self._begun = None
        end = self._places[-1][-1] + 1
        for places, came in zip(self._places, self.crew.finish(begun, until=self.until), strict=True):
            where = Where(came.node, end)
            for place, found in zip(places, self._found(came, len(places)), strict=False):
                self._ready[place] = found, where

    def _found(self, came: Came[Duels], count: int) -> Sequence[Duel | Failure]:
        return [came.failure] * count if came.failure is not None else came.value or []

    def _task(self, places: Sequence[int], *, own: bool) -> Task[Duels]:
        instances = [self.asked(place, own and place == places[-1]) for place in places]

        def here() -> Duels:
            duels: Duels = []
            for at, instance in enumerate(instances):
                duel = self.here(instance, len(instances) - at)
                if duel is None:
                    break
                duels.append(duel)
            return duels

        return Task(here, None if own else lambda key: RunInstances(key, tuple(instances)), _duels)


def wave_end(there: int, benches: int, enough: int) -> int:
    """The look up to which pairs are measured at once: the last that takes no longer than the next one.

    The first wave has as many as are ``enough``, in both orders.
    """
    following = next(look for look in LOOKS if look > there)
    rounds = math.ceil(len(chunks(there, following)) / benches)
    room = there - there % 2 + 2 * rounds * benches
    wanted = enough + enough % 2 if there < enough else LOOKS[-1]
    return max(look for look in LOOKS if look <= max(following, min(room, wanted)))


def chunks(there: int, end: int) -> list[Sequence[int]]:
    """Places that belong to one node each: both orders of roles."""
    starts = [there, *range(there + 2 - there % 2, end, 2)]
    return [range(start, min(end, start + 2 - start % 2)) for start in starts]


def _duels(answer: Answer) -> Duels:
    if not isinstance(answer, Paired):
        raise AssertionError("pairs are answered by duels")
    return list(answer.duels)
