"""Beside the median, which decides: how long the slower requests of a confirmation take."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from advisor.base.durations import write_latency, write_rate
from advisor.base.settings import Settings, Value
from advisor.base.unit import Unit
from advisor.profiles.facts.profile import Profile
from advisor.tuners.comparing.arrivals import Arrivals, UnderLoad, arriving, capacity, shown_share
from advisor.tuners.comparing.duel import Duel
from advisor.tuners.comparing.looks import MIN_INSTANCES
from advisor.tuners.comparing.measure import Estimate, moderated
from advisor.tuners.comparing.percentiles import LONGER, Tail, least_requests, percentile, tail
from advisor.tuners.knobs import KNOBS
from advisor.tuners.trial.messages import Slot
from advisor.workloads.gathering import gathered


@dataclass
class RequestTails:
    """Requests of all pairs of fresh processes.

    Attributes:
        first: Slots of the program as it is.
        second: Those of the candidate.
        disturbed: Slots of both that count only for what requests wait: other programs make them wait, too.
        startups_s: From the start of a candidate's process to its first answer.
        limit_s: That the user allows a request from its arrival on; ``None`` for none.
        together: Samples that are answered in one call, by the program as it is and by the candidate.
        sorted_samples: Requests of the candidate hold samples of like length, those of the program any.
    """

    limit_s: float | None = None
    together: tuple[int, int] = (1, 1)
    sorted_samples: bool = False

    first: list[Slot] = field(default_factory=list)
    second: list[Slot] = field(default_factory=list)
    disturbed: tuple[list[Slot], list[Slot]] = field(default_factory=lambda: ([], []))
    startups_s: list[float] = field(default_factory=list)
    _p90: list[list[float]] = field(default_factory=list)
    _arrivals: "tuple[int, tuple[Arrivals, Arrivals] | None] | None" = None

    @classmethod
    def of(cls, settings: Settings, profile: Profile, winner: Mapping[str, Value]) -> "RequestTails | None":
        """Of a run that is counted in requests.

        Args:
            settings: What was asked for.
            profile: Of the program as it is.
            winner: The candidate.
        """
        if settings.unit is not Unit.REQUEST:
            return None
        own = answered_together(profile)
        plan = gathered(KNOBS, winner, own)
        return cls(settings.latency_limit_s, (own, plan.size), plan.pool > 1)

    def add(self, duel: Duel) -> None:
        """One more pair."""
        self.first += duel.first
        self.second += duel.second
        for slots, others in zip(self.disturbed, duel.disturbed, strict=True):
            slots.extend(others)
        times = [[time for slot in arm for time in slot.step_s] for arm in (duel.first, duel.second)]
        self._p90.append([math.log(percentile(times[0], 0.9) / percentile(times[1], 0.9))])
        if duel.second_outcome is not None and duel.second_outcome.startup_s is not None:
            self.startups_s.append(duel.second_outcome.startup_s)

    def p90(self, level: float) -> Estimate | None:
        """Log ratio of the 90th percentiles, over processes; ``None`` with fewer than two pairs."""
        return moderated(self._p90, level) if len(self._p90) >= MIN_INSTANCES else None

    def p99(self) -> Tail:
        """Whether the 99th percentile may have grown longer."""
        return tail(self.first, self.second)

    def arrivals(self) -> tuple[Arrivals, Arrivals] | None:
        """Program as it is and candidate at the same arrivals; ``None`` without limit or enough requests."""
        if self.limit_s is None:
            return None
        if self._arrivals is None or self._arrivals[0] != len(self.first):  # pairs were added since
            arms = self.first + self.disturbed[0], self.second + self.disturbed[1]
            self._arrivals = len(self.first), side_by_side(*arms, self.limit_s, self.together)
        return self._arrivals[1]

    def objection(self, level: float) -> str:
        """Why a candidate whose median is shorter is not recommended all the same; empty for no reason."""
        if self.limit_s is not None and (why := over_limit(self.arrivals(), self.limit_s)):
            return why
        if self.sorted_samples or self.together[0] != self.together[1]:
            return ""  # what is slow of other requests says nothing
        p90, p99 = self.p90(level), self.p99()
        if p90 is not None and p90.low <= 0:
            _, low, _ = p90.ratio
            return f"p90 is not shown to be shorter: {low:.2f} times as fast at the least"
        return p99.told if p99.verdict == "not_shown" else ""

    def may_be_shown(self, level: float) -> bool:
        """Whether more pairs may take the objection away: what is not shown seems to be so."""
        if self.limit_s is not None or not self.objection(level):
            return False
        p90, p99 = self.p90(level), self.p99()
        shorter = p90 is None or p90.estimate > 0
        return shorter and (p99.ratio is None or p99.ratio <= LONGER)


def side_by_side(
    first: Sequence[Slot], second: Sequence[Slot], limit_s: float, together: tuple[int, int] = (1, 1)
) -> tuple[Arrivals, Arrivals] | None:
    """Two programs at the same arrivals, shares of what the first one answers; ``None`` for too few requests.

    Args:
        first: Slots of the program as it is.
        second: Slots of the candidate.
        limit_s: What is asked for.
        together: Requests that either answers in one call.
    """
    share = shown_share(min(sum(len(slot.step_s) for slot in arm) for arm in (first, second)))
    if share is None:
        return None
    per_s = capacity(first, together[0])
    return (
        arriving(first, limit_s, share, per_s, together[0]),
        arriving(second, limit_s, share, per_s, together[1]),
    )


def answered_together(profile: Profile) -> int:
    """Samples that the program as it is answers in one call."""
    return 1 if profile.run is None else profile.run.requests_batch or 1


def over_limit(arrivals: tuple[Arrivals, Arrivals] | None, limit_s: float) -> str:
    """Why the second program does not keep the limit; empty where it does.

    It must at the lowest load, and wherever the first one does.
    """
    limit = f"the limit of {write_latency(limit_s)}"
    if arrivals is None:
        return f"{limit} cannot be shown to be kept: p90 takes {least_requests(0.9)} requests at least"
    before, after = arrivals
    for at, (was, now) in enumerate(zip(before.loads, after.loads, strict=True)):
        if now.within(limit_s) or (at and not was.within(limit_s)):
            continue
        also = "" if was.within(limit_s) == now.within(limit_s) else "; as it is the program keeps it"
        return f"{limit} is not kept at {told(after, now)}{also}"
    return ""


def told(arrivals: Arrivals, at: UnderLoad) -> str:
    """``31.2 requests/s (50 % of what it answers now): p99 from arrival 18 ms, at most 21 ms``."""
    rate = f"{write_rate(at.per_s)} ({at.load:.0%} of what it answers now)"
    if at.time_s is None or at.at_most_s is None:
        return f"{rate}: fewer are answered than arrive"
    times = f"{write_latency(at.time_s)}, at most {write_latency(at.at_most_s)}"
    return f"{rate}: {arrivals.percentile} from arrival {times}"
