"""Duels in which requests to a trained model are compared instead of steps of a training."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from advisor.base.durations import write_latency
from advisor.base.unit import Unit
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.measure import median
from advisor.tuners.knob import Value
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.supervision.failures import not_applied
from advisor.tuners.trial.messages import Slot, SlotMeasured

REQUESTS = 50  # of a slot (inference.md, section 5)
LEAST = 3  # of slow ones
LONGEST_S = 1.0  # that a slot of several takes
SHORTEST_S = 0.05  # of a slot of requests that take microseconds


@dataclass
class RequestArena(Arena):
    """Compares how many requests are answered in a second, in slots of about fifty.

    The first request after a switch is dropped, as the first step is.

    Attributes:
        limit_s: That a request may take from its arrival on; ``None`` for no limit.
    """

    unit: ClassVar[Unit] = Unit.REQUEST

    limit_s: float | None = None

    def steps(self) -> int:
        """Requests of one slot: fewer where they are slow, more where they take microseconds."""
        if self.fixed_steps is not None:
            return self.fixed_steps
        wanted = max(REQUESTS, math.ceil(SHORTEST_S / max(self.step_s, 1e-6)))
        return max(LEAST, min(wanted, round(LONGEST_S / max(self.step_s, 1e-6))))

    def quads(
        self,
        sessions: tuple[Running, Running],
        configs: tuple[Mapping[str, Value] | None, ...],
        quads: int,
        deadline: float = math.inf,
        by_work: bool = False,
    ) -> tuple[list[float], tuple[list[Slot], list[Slot]], tuple[SlotMeasured, SlotMeasured]]:
        """As of every arena.

        Raises:
            SessionEnded: The program came to its end before the first quad was complete.
            TrialFailed: More samples in a call than the program has take so long that no limit is kept.
        """
        found = super().quads(sessions, configs, quads, deadline, by_work)
        if self.limit_s is not None:
            for config, slots in zip(configs, found[1], strict=True):
                self._refuse_late(config or {}, slots, self.limit_s)
        return found

    def _refuse_late(self, config: Mapping[str, Value], slots: list[Slot], limit_s: float) -> None:
        """Whoever arrives as a call begins waits for that one and for its own."""
        own, asked = (int(of.get("serving_batch", 0)) for of in (self.present, config))
        times = [time for slot in slots for time in slot.step_s]
        if asked > own > 0 and 2 * median(times) > limit_s:
            told = f"{asked} in a call take {write_latency(median(times))}, and two calls more than the limit"
            raise not_applied({"serving_batch": told})


class LatencyArena(RequestArena):
    """Compares the median time of a request: what is rare (a long input, a pause) has no weight in it."""

    def seconds(self, slot: Slot, by_work: bool) -> float:
        """Of half of all requests at most."""
        return median(slot.step_s)
