"""The user's step with one thing removed, in blocks interleaved with the normal step: the facts ``Replays``.

``share = 1 - T_replay / T_normal`` with the interval of the paired blocks; negative shares count as 0. The
process is thrown away afterwards: what it computes is no training any more.
"""

import math
import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, fields

from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.replayed import Replays, Share
from advisor.tuners.comparing.measure import median, quad_log_ratio, slot_steps, within
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.supervision.failures import TrialFailed
from advisor.tuners.trial.messages import Omit, Omitted, Slot

QUADS = (5, 10)  # at least and at most, of one replay
LEVEL = 0.95
SLOT_LIMIT_S = 5.0
PART_S = 15.0  # longest time for one replay
REFILL = 2.0  # batches beyond the queue's depth, after which a loader with workers is steady again

# In this order: the ones that leave the training state sound come first, backward last.
PARTS = {
    "loader_free": "loader",
    "double_batch": "double",
    "half_batch": "half",
    "communication_off": "communication",
    "debug_off": "debug",
    "eager": "graph",
    "optimizer_off": "optimizer",
    "forward_only": "backward",
}


@dataclass
class Replaying:
    """Measures replays in one live process.

    Attributes:
        session: Paused at a step border, warmed up.
        profile: What is known of the run; says which replays make sense.
        clean_step_s: Mean seconds of a clean step, watched before: the normal step where workers would
            use the pause between two blocks to run ahead.
        deadline: Monotonic time after which no further replay is begun.
    """

    session: Running
    profile: Profile
    clean_step_s: float
    deadline: float
    clock: Callable[[], float] = time.monotonic
    refused: dict[str, str] = field(default_factory=dict)
    shares: dict[str, Share] = field(default_factory=dict)
    eager_step_ms: float | None = None

    def run(self, names: Iterable[str] = tuple(PARTS)) -> Replays:
        """Measure these replays; one that is refused or fails leaves the rest.

        A program that ends, or fails under a replay, ends the measuring: what is known is kept.
        """
        wanted = [name for name in PARTS if name in set(names)]
        for place, name in enumerate(wanted):
            reason = self._pointless(name)
            if reason is None and self.clock() > self.deadline:
                reason = "no time was left"
            if reason is not None:
                self.refused[name] = reason
                continue
            try:
                self._measure(name)
            except (TrialFailed, SessionEnded) as end:
                said = end.failure.message if isinstance(end, TrialFailed) else "the program ended"
                self.refused.update(dict.fromkeys(wanted[place:], said))
                break
        known = {each.name for each in fields(Replays)}
        shares = {name: share for name, share in self.shares.items() if name in known}
        return Replays(**shares, refused=tuple(self.refused.items()))

    def _pointless(self, name: str) -> str | None:
        """Why a replay would say nothing about this run."""
        profile = self.profile
        run, loader = profile.run, profile.loader
        if name in ("loader_free", "double_batch", "half_batch") and loader is None:
            return "the program uses no DataLoader"
        if name in ("optimizer_off", "forward_only") and not profile.optimizers:
            return "the program uses no torch optimizer"
        if name == "optimizer_off" and any(optimizer.closure for optimizer in profile.optimizers):
            return "the optimizer calls a closure"
        if name == "communication_off" and not any(root.parallel for root in profile.roots):
            return "a single process communicates with nobody"
        if name == "debug_off" and not (run is not None and "anomaly" in run.debug):
            return "anomaly detection is off"
        if name == "eager" and not (run is not None and run.own_compile):
            return "the program compiles nothing"
        return None

    def _measure(self, name: str) -> None:
        part = PARTS[name]
        against = "loader" if part in ("double", "half") else None
        period = self.profile.run.period if self.profile.run is not None else 1
        steps = slot_steps(self.clean_step_s, period)
        reason = self._omit(part)
        if reason is not None:
            self.refused[name] = reason
            return
        began = self.clock()
        try:
            ratios = self._ratios(part, against, steps, began)
        finally:
            if self.session.alive:
                self._omit(None)
        estimate = within(ratios, LEVEL)
        bounds = estimate.estimate, estimate.low, estimate.high
        if part in ("double", "half"):
            ratio, high, low = (math.exp(-value) for value in bounds)
            self.shares[name] = Share(ratio, low, high)
            return
        share, low, high = (1 - math.exp(-value) for value in bounds)
        if name == "eager":
            self.eager_step_ms = 1000 * self.clean_step_s * (1 - share)
            return
        self.shares[name] = Share(max(0.0, share), max(0.0, low), max(0.0, high))

    def _ratios(self, part: str, against: str | None, steps: int, began: float) -> list[float]:
        """Log ratios of normal over replayed time; of single blocks where workers run ahead in a pause."""
        loader = self.profile.loader
        least, most = QUADS
        ratios: list[float] = []
        if loader is not None and loader.num_workers and part == "loader":
            while len(ratios) < least:
                slot = self._slot(part, steps)
                ratios.append(math.log(self.clean_step_s / slot.mean_s))
            return ratios
        while len(ratios) < most:
            blocks = [self._slot(name, steps).mean_s for name in (against, part, part, against)]
            ratios.append(quad_log_ratio(*blocks))
            if len(ratios) >= least and self.clock() - began > PART_S / 3:
                break
            if self.clock() - began > PART_S or self.clock() > self.deadline + PART_S:
                break
        return ratios

    def _slot(self, part: str | None, steps: int) -> Slot:
        reason = self._omit(part)
        assert reason is None, reason  # it was possible a moment ago
        return self.session.slot(steps, drop=self._drop(part), limit_s=SLOT_LIMIT_S)

    def _drop(self, part: str | None) -> int:
        """Steps after which a block is steady: with workers, those that empty the queue filled meanwhile."""
        loader = self.profile.loader
        if part in ("loader", "double", "half") or loader is None or not loader.num_workers:
            return 1
        depth = loader.num_workers * (loader.prefetch_factor or 2)
        return min(int(REFILL * depth), max(1, int(2.0 / self.clean_step_s)))

    def _omit(self, part: str | None) -> str | None:
        return self.session.ask(Omit(part), Omitted, 60.0).reason


def normal_step_s(wall_ns: Sequence[int], flags: Container[int]) -> float:
    """Mean seconds of the steps of an observation that have no ``flags``; of all where none is clean."""
    clean = [value for place, value in enumerate(wall_ns) if place not in flags]
    values = clean or wall_ns
    centre = median([value / 1e9 for value in values])
    kept = [value / 1e9 for value in values if value / 1e9 < 10 * centre]  # one stall is no steady state
    return sum(kept) / len(kept)
