"""The user's step with one thing removed, in blocks interleaved with the normal step: the facts ``Replays``.

``share = 1 - T_replay / T_normal`` with the interval of the paired blocks; negative shares count as 0. Each
round takes every part once and again in reverse order: all share the blocks of the normal step, and drift
cancels. Afterwards everything is in its place again, but the weights are no longer those of the training:
steps without an update, or with one batch again and again, have come between.
"""

import math
import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, fields

from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.replayed import Replays, Share
from advisor.tuners.comparing.measure import median, quad_log_ratio, single, within
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.supervision.failures import TrialFailed
from advisor.tuners.trial.look_messages import Omit, Omitted
from advisor.tuners.trial.messages import Slot

LEVEL = 0.95
SLOT_LIMIT_S = 5.0
LEAST_PAIRS = 2  # of which an interval can be made
LONE_SIGMA = 0.05  # of one pair, where a part is measured no more often
REFILL = 2.0  # batches beyond the queue's depth, after which a loader with workers is steady again
STALL, RARE = 10, 0.01  # times the median; share of the steps up to which such a one is no steady state
LITTLE = 0.01  # share of a step, below which leaving a part out tells nothing that is worth its steps

# In this order: the ones that leave the training state sound come first, backward last.
PARTS = {
    "loader_free": "loader",
    "communication_off": "communication",
    "debug_off": "debug",
    "eager": "graph",
    "optimizer_off": "optimizer",
    "forward_only": "backward",
    "half_batch": "half",
    "double_batch": "double",
}
SIZES = ("half", "double")  # measured against the cached batch, last: a program may not take them
ENDED = "the program ended"
CACHED = ("loader", *SIZES)  # parts whose first step still fetches a batch


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        block_s: Seconds of a block, of at least one step.
        rounds: At least and at most, each a pair of blocks of every part.
        sizes: The same for other batch sizes, of which rules need no interval.
        extra_s: Seconds after which no round beyond the least begins.
    """

    block_s: float = 0.15
    rounds: tuple[int, int] = (5, 10)
    sizes: tuple[int, int] = (5, 10)
    extra_s: float = 5.0


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
    effort: Effort = field(default_factory=Effort)
    clock: Callable[[], float] = time.monotonic
    refused: dict[str, str] = field(default_factory=dict)
    shares: dict[str, Share] = field(default_factory=dict)
    eager_step_ms: float | None = None
    _left_out: str | None = None

    def run(self, names: Iterable[str] = tuple(PARTS)) -> Replays:
        """Measure these replays; one that is refused leaves the rest.

        A program that ends, or fails under a replay, ends the measuring: what is known is kept.
        """
        asked, self._left_out = set(names), None
        self.refused = {name: why for name, why in self.refused.items() if name not in asked}
        wanted = [name for name in PARTS if name in asked and self._makes_sense(name)]
        try:
            wanted = [name for name in wanted if self._possible(name)]
            self._measure(wanted)
        except (TrialFailed, SessionEnded) as end:
            said = end.failure.message if isinstance(end, TrialFailed) else ENDED
            self.refused.update({name: said for name in wanted if not self._known(name)})
        finally:
            if self.session.alive and self._left_out is not None:
                self._omit(None)
        known = {each.name for each in fields(Replays)}
        shares = {name: share for name, share in self.shares.items() if name in known}
        return Replays(**shares, refused=tuple(self.refused.items()))

    @property
    def missing(self) -> tuple[str, ...]:
        """What the program's end has cut off: another process of it can still show that."""
        return tuple(name for name, why in self.refused.items() if why == ENDED)

    def _known(self, name: str) -> bool:
        return name in self.shares or (name == "eager" and self.eager_step_ms is not None)

    def _makes_sense(self, name: str) -> bool:
        reason = self._pointless(name)
        if reason is not None:
            self.refused[name] = reason
        return reason is None

    def _possible(self, name: str) -> bool:
        """Whether the part can be left out; tried once, without a step."""
        reason = self._omit(PARTS[name])
        if reason is not None:
            self.refused[name] = reason
        self._omit(None)
        return reason is None

    def _pointless(self, name: str) -> str | None:
        """Why a replay would say nothing about this run."""
        profile = self.profile
        run, loader, phases = profile.run, profile.loader, profile.phases
        if name in ("loader_free", "double_batch", "half_batch") and loader is None:
            return "the program uses no DataLoader"
        if name == "loader_free" and phases is not None and phases.share("input_wait") < LITTLE:
            return "the step does not wait for data"
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

    def _measure(self, names: Sequence[str]) -> None:
        """A loader with workers alone, what is compared with the normal step, then batch sizes."""
        sizes = [name for name in names if PARTS[name] in SIZES]
        others = [name for name in names if name not in sizes]
        if self._workers and "loader_free" in others:
            others.remove("loader_free")
            self._without_workers()
        self._rounds(None, others, self.effort.rounds)
        self._rounds("loader", sizes, self.effort.sizes)

    def _without_workers(self) -> None:
        """The cached batch against what was watched: in a pause between two blocks workers run ahead."""
        if self._in_time(["loader_free"]):
            spent = [self._slot("loader").mean_s for _ in range(self.effort.rounds[0])]
            self._keep("loader_free", [math.log(self.clean_step_s / each) for each in spent])

    def _in_time(self, names: Sequence[str]) -> bool:
        if self.clock() <= self.deadline:
            return True
        self.refused.update(dict.fromkeys(names, "no time was left"))
        return False

    def _rounds(self, base: str | None, names: Sequence[str], counts: tuple[int, int]) -> None:
        """Rounds of ``base``, each part, each part in reverse order, ``base``; what is complete is kept."""
        if not names or not self._in_time(names):
            return
        (least, most), began = counts, self.clock()
        enough = min(least, LEAST_PAIRS)
        parts = [base, *(PARTS[name] for name in names)]
        ratios: dict[str, list[float]] = {name: [] for name in names}
        try:
            for number in range(most):
                if number >= least and self.clock() - began > self.effort.extra_s:
                    break
                if number >= enough and self.clock() > self.deadline:
                    break
                there = [self._slot(part).mean_s for part in parts]
                back = [self._slot(part).mean_s for part in reversed(parts)][::-1]
                for name, first, second in zip(names, there[1:], back[1:], strict=True):
                    ratios[name].append(quad_log_ratio(there[0], first, second, back[0]))
        finally:
            for name in names:
                if len(ratios[name]) >= enough:
                    self._keep(name, ratios[name])

    def _keep(self, name: str, ratios: Sequence[float]) -> None:
        estimate = within(ratios, LEVEL) if len(ratios) > 1 else single(ratios[0], LONE_SIGMA, LEVEL)
        bounds = estimate.estimate, estimate.low, estimate.high
        if PARTS[name] in SIZES:
            ratio, high, low = (math.exp(-value) for value in bounds)
            self.shares[name] = Share(ratio, low, high)
            return
        share, low, high = (1 - math.exp(-value) for value in bounds)
        if name == "eager":
            self.eager_step_ms = 1000 * self.clean_step_s * (1 - share)
            return
        self.shares[name] = Share(max(0.0, share), max(0.0, low), max(0.0, high))

    def _slot(self, part: str | None) -> Slot:
        """One block; the first step after a change is left out where it tells of the change."""
        changes = part != self._left_out
        reason = self._omit(part)
        assert reason is None, reason  # it was possible a moment ago
        drop = self._drop(part) if changes else 0
        return self.session.slot(self._steps, drop=drop, limit_s=max(SLOT_LIMIT_S, 4 * self.clean_step_s))

    @property
    def _steps(self) -> int:
        """Of a block: whole periods."""
        period = self.profile.run.period if self.profile.run is not None else 1
        steps = max(1, math.ceil(self.effort.block_s / max(self.clean_step_s, 1e-6)))
        return math.ceil(steps / period) * period

    @property
    def _workers(self) -> bool:
        loader = self.profile.loader
        return loader is not None and bool(loader.num_workers)

    def _drop(self, part: str | None) -> int:
        """Steps after which a block is steady: with workers, those that empty the queue filled meanwhile."""
        loader = self.profile.loader
        if part in CACHED:
            return 1
        if loader is None or not loader.num_workers:
            return 1 if self.effort.block_s else 0
        depth = loader.num_workers * (loader.prefetch_factor or 2)
        return min(int(REFILL * depth), max(1, int(2.0 / self.clean_step_s)))

    def _omit(self, part: str | None) -> str | None:
        if part == self._left_out:
            return None
        reason = self.session.ask(Omit(part), Omitted, 60.0).reason
        self._left_out = None if reason is not None else part
        return reason


def normal_step_s(wall_ns: Sequence[int], flags: Container[int]) -> float:
    """Mean seconds of the steps of an observation that have no ``flags``; of all where none is clean.

    A stall is left out; long steps that come again and again, as behind workers that deliver in bursts, are
    not.
    """
    clean = [value for place, value in enumerate(wall_ns) if place not in flags]
    values = clean or wall_ns
    centre = median([value / 1e9 for value in values])
    seconds = [value / 1e9 for value in values]
    stalls = sum(value >= STALL * centre for value in seconds)
    if stalls <= max(1, int(RARE * len(seconds))):
        seconds = [value for value in seconds if value < STALL * centre]
    return sum(seconds) / len(seconds)
