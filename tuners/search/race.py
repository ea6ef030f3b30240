"""One configuration against the incumbent, measured until it is clear whether it is worth carrying on."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from advisor.tuners.comparing.duel import Arena, Duel, by_work
from advisor.tuners.comparing.ended_early import ended_early
from advisor.tuners.comparing.excluded import marks, refuse_collapse
from advisor.tuners.comparing.measure import (
    MEDIAN_EFFICIENCY,
    Estimate,
    between,
    median,
    moderated,
    single,
    within,
)
from advisor.tuners.comparing.retrying import once_more
from advisor.tuners.comparing.ways import LIVE, SWITCHED, WINDOWS
from advisor.tuners.comparing.windows import KeptWindows, Window
from advisor.tuners.knob import Value
from advisor.tuners.launching.rank_group import Running, end
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.search.outcome_check import check_outcome
from advisor.tuners.search.record import TrialRecord
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.supervision.failures import TrialFailed, not_applied
from advisor.tuners.trial.messages import Slot, SlotMeasured

LIVE_LOOKS = (1, 3, 6, 12)  # quads at which a live race may end
HOPELESS = -0.3  # log ratio of the first quad that ends a race at once
DUEL_QUADS = 4
LONG_DUEL_QUADS = 2  # of quads that take long
DUEL_LOOKS = 2  # instances of a restart knob while screening
SCREEN_LEVEL = 0.9  # two-sided, of a look that only nominates
WORTH = 0.01  # log ratio below which a change is not worth carrying on
LONG_QUAD_S = 2.0  # of a quad, from which a clear one suffices
DULL = 0.5  # of the least gain, below which a few of them suffice: others are still to be looked at
SURE = 4.0  # times the spread of a quad, beyond which its log ratio is clear
CLEAR = 0.2  # log ratio that needs no second look while screening
TOO_MUCH = 0.1  # log ratio beyond what a change could bring by the profile, that asks for a second look
SHORT_WINDOW_S = 2.0  # of the incumbent's window, up to which it is measured anew beside each candidate


Quads = tuple[list[float], tuple[list[Slot], list[Slot]], tuple[SlotMeasured, SlotMeasured]]
Measured = TypeVar("Measured")


@dataclass
class Race:
    """Measures candidates of a search; what can be switched shares one process for as long as it can.

    Attributes:
        limit_bytes: Of memory, that a candidate with a process of its own may use.
        base: The baseline; a setting that it has, such as a fixed one, is never lost.
        least: Log ratio below which a gain could not be confirmed: no look is taken to tell it from nothing.
        lost: Settings of the incumbent that declined in the last race, by knob with the reason.
        input_wait: Share (0 to 1) of the candidate's steps that waited for data in the last race; of windows
            with what starting workers adds to them.
        pairs: Of processes that the last race compared; 0 where one process held both.
        log_ratios: Of the last look.
    """

    arena: Arena
    clock: Callable[[], float] = time.monotonic
    limit_bytes: int | None = None
    base: Configuration = field(default_factory=lambda: Configuration({}))
    least: float = WORTH
    lost: dict[str, str] = field(default_factory=dict)
    input_wait: float | None = None
    pairs: int = 0
    log_ratios: list[float] = field(default_factory=list)
    _shared: tuple[Configuration, Running] | None = None
    _kept: KeptWindows = field(default_factory=KeptWindows)  # of the shared process
    _moved: bool = False  # its loaders may have other settings than the incumbent, or empty queues
    _given: bool = False  # it was begun, and looked at closely, before

    def adopt(
        self, config: Configuration, session: Running, window: Window | None = None, *, moved: bool = False
    ) -> None:
        """Use a process that runs already, under this configuration; ``window`` is what is known of it.

        One that was ``moved`` is not as it stays: its loaders' queues are empty or full.
        """
        self._shared, self._kept, self._moved = (config, session), KeptWindows(), moved
        self._given = True
        if window is not None:
            self._kept.keep(config, window)

    def close(self) -> None:
        """End the shared process."""
        if self._shared is not None:
            session, self._shared = self._shared[1], None
            end(session)

    def hand_over(self) -> Running | None:
        """The shared process, if it can be switched to the baseline: from now on the caller's to end."""
        if self._shared is not None:
            config, session = self._shared
            if session.alive and self._settled(config) == self._settled(self.base):
                self._shared, self._moved = None, bool(self.arena.switches)
                return session
        self.close()
        return None

    def run(
        self,
        incumbent: Configuration,
        config: Configuration,
        record: TrialRecord,
        deadline: float,
        bar: float = 0.0,
        look: int | None = None,
        most: float = math.inf,
    ) -> Estimate:
        """Log ratio of one configuration over the incumbent; what was measured goes into the record.

        Args:
            incumbent: The best so far.
            config: What is tried.
            record: Of this trial.
            deadline: Time of the clock after which no further look is taken.
            bar: Log ratio of the best that this one competes with: no look is taken that cannot change
                which of them is better.
            look: Take this one alone of those in which processes take turns: in every other one roles are
                swapped.
            most: Log ratio that the profile leaves room for: a first look that says more needs a second one,
                where windows are short.

        Raises:
            TrialFailed: It failed, or gave what must not be ranked; what came from outside, twice. Or a
                setting of the incumbent declined (``not_applied``), which then is in ``lost``.
        """
        self.lost = {}
        return once_more(
            lambda: self._once(incumbent, config, record, deadline, bar, look, most), record.begin_again
        )

    def _once(
        self,
        incumbent: Configuration,
        config: Configuration,
        record: TrialRecord,
        deadline: float,
        bar: float,
        look: int | None,
        most: float,
    ) -> Estimate:
        how = self.arena.how(incumbent, config)
        if how == LIVE:
            record.process = "shared"
            self.pairs, self.log_ratios = 0, []
            return self._live(incumbent, config, record, deadline, bar)
        if how != SWITCHED or not is_short(self.arena, incumbent):
            most = math.inf
        instances: list[list[float]] = []
        for index in range(DUEL_LOOKS) if look is None else (look,):
            if how == SWITCHED:
                record.process = "shared"
                duel = self._switched(incumbent, config, again=index > 0)
            else:
                duel = self.arena.duel(
                    incumbent,
                    config,
                    how=how,
                    quads=duel_quads(self.arena),
                    swapped=index % 2 == 1,
                    number=record.number,
                    deadline=deadline,
                    reuse=True,
                )
            instances.append(duel.log_ratios)
            _mark(record, duel.first, duel.second, self._threads(incumbent, config))
            record.slots += duel.second
            record.outcome, record.startup_s = duel.second_outcome, duel.startup_s
            record.applied = list(duel.second_message.applied)
            waited = duel.second_message.input_wait
            self.input_wait = None if waited is None else waited + duel.unseen
            record.refused = self._refused(incumbent, config, duel.first_message, duel.second_message)
            if record.refused or not is_unclear(duel.log_ratios, bar, most) or self.clock() > deadline:
                break
        check_outcome(record, self.limit_bytes)
        self.pairs, self.log_ratios = 0 if how == SWITCHED else len(instances), instances[-1]
        if len(instances) > 1:
            return of_looks(instances)
        if len(instances[0]) > LONG_DUEL_QUADS:
            return within(instances[0], SCREEN_LEVEL)
        if len(instances[0]) > 1:
            return self._of_few(instances[0])
        return self._of_windows(instances[0]) if how in (WINDOWS, SWITCHED) else self._lone(instances[0][0])

    def _lone(self, log_ratio: float) -> Estimate:
        return single(log_ratio, self.arena.sigma, SCREEN_LEVEL)

    def _of_few(self, log_ratios: Sequence[float]) -> Estimate:
        """Of two quads, whose own spread tells little: that of the baseline, or as far as they are apart."""
        lone = self._lone(median(log_ratios))
        low, high = min(lone.low, *log_ratios), max(lone.high, *log_ratios)
        return replace(lone, low=low, high=high, quads=len(log_ratios))

    def _of_windows(self, log_ratios: Sequence[float]) -> Estimate:
        """Of one window of each: nothing in it tells its spread, which what was recorded of windows does."""
        recorded, own = moderated([log_ratios], SCREEN_LEVEL, WINDOWS), self._lone(log_ratios[0])
        return replace(recorded, low=min(recorded.low, own.low), high=max(recorded.high, own.high))

    def _switched(self, incumbent: Configuration, config: Configuration, *, again: bool) -> Duel:
        """A window of each in the shared process; of the incumbent a new one if short, or looked at again."""

        def measure(session: Running) -> Duel:
            self._moved = True
            kept = None if again or is_short(self.arena, incumbent) else self._kept
            return self.arena.switched(session, incumbent, config, swapped=again, kept=kept)

        return self._in_shared(incumbent, measure)

    def _live(
        self,
        incumbent: Configuration,
        config: Configuration,
        record: TrialRecord,
        deadline: float,
        bar: float,
    ) -> Estimate:
        ratios: list[float] = []
        estimate: Estimate | None = None
        for quads in LIVE_LOOKS:
            more, (first, slots), messages = self._live_quads(
                incumbent, config, quads - len(ratios), deadline
            )
            ratios += more
            _mark(record, first, slots, self._threads(incumbent, config))
            refuse_collapse((incumbent, config), (first, slots))
            record.slots += slots
            record.applied = list(messages[1].applied)
            self.input_wait = messages[1].input_wait
            record.refused = self._refused(incumbent, config, *messages)
            if ratios[0] < HOPELESS or (len(ratios) == 1 and self._is_clear(ratios[0] - bar)):
                break
            if len(ratios) >= 2:
                estimate = self._moderate(within(ratios, SCREEN_LEVEL))
                if record.refused or estimate.high < bar + self.least or estimate.low > bar + WORTH:
                    break
                if self.arena.quad_s > LONG_QUAD_S and estimate.estimate < bar + DULL * self.least:
                    break
            if self.clock() > deadline:
                break
        return estimate or self._lone(ratios[0])

    def _moderate(self, estimate: Estimate) -> Estimate:
        """No surer than the spread of the baseline against itself allows: few quads agree by chance."""
        sigma = MEDIAN_EFFICIENCY * self.arena.sigma / math.sqrt(estimate.quads)
        least = single(estimate.estimate, sigma, estimate.level)
        return replace(estimate, low=min(estimate.low, least.low), high=max(estimate.high, least.high))

    def _is_clear(self, difference: float) -> bool:
        """Whether one quad of long steps decides: a second takes long, and warm-up counts for less."""
        surely = SURE * self.arena.sigma
        return self.arena.quad_s > LONG_QUAD_S and not self.least - surely <= difference <= WORTH + surely

    def _live_quads(
        self, incumbent: Configuration, config: Configuration, quads: int, deadline: float
    ) -> Quads:
        """Quads in the shared process, once the queues of its loaders are as they stay."""

        def measure(session: Running) -> Quads:
            if self._moved:
                session.slot(1, drop=self.arena.window_steps(incumbent)[0], config=incumbent)
                self._moved = False
            work = by_work(incumbent, config)
            return self.arena.quads((session, session), (incumbent, config), quads, deadline, work)

        return self._in_shared(incumbent, measure)

    def _in_shared(self, incumbent: Configuration, measure: Callable[[Running], Measured]) -> Measured:
        """What is measured in the shared process; a program that came to its end is started again once.

        So is one that fails in a process that was looked at closely before: its loop has been given one batch
        again and again, and at its end may have more answers than there are samples.
        """
        for attempt in (0, 1):
            session = self._session(incumbent)
            try:
                return measure(session)
            except SessionEnded as ended:
                if attempt:
                    raise ended_early(self.arena, ended) from ended
            except TrialFailed as failed:
                if not self._given or failed.failure.cause != "user_error":
                    raise
                session.kill()
        raise AssertionError("the second attempt returns or raises")

    def _refused(
        self, incumbent: Configuration, config: Configuration, first: SlotMeasured, second: SlotMeasured
    ) -> dict[str, str]:
        """What declined because of the candidate: not what the incumbent's side declines just so.

        Raises:
            TrialFailed: A setting of the incumbent declined, which may come as late as in a second epoch.
        """
        of_incumbent = first.refused
        self.lost = {
            name: why for name, why in of_incumbent.items()
            if self.base.get(name, incumbent.get(name)) != incumbent.get(name)
        }  # fmt: skip
        if self.lost:
            self.close()
            raise not_applied(self.lost)
        return {
            name: why for name, why in second.refused.items()
            if config.get(name) != incumbent.get(name) or name not in of_incumbent
        }  # fmt: skip

    def _threads(self, *configs: Configuration) -> int:
        """Of torch on either side at least; 1 of ranks, which share the CPUs."""
        if any(int(config.get("ranks", 1)) > 1 for config in configs):
            return 1
        return min(int(config.get("num_threads", self.arena.threads)) for config in configs)

    def _settled(self, config: Configuration) -> dict[str, Value]:
        """As of ``Arena``; knobs that it does not name are as in the baseline."""
        return self.arena.settled({**self.base, **config})

    def _session(self, incumbent: Configuration) -> Running:
        """A running process whose settings are the incumbent's, but for what can be switched."""
        if self._shared is not None:
            config, session = self._shared
            if session.alive and self._settled(config) == self._settled(incumbent):
                return session
            session.kill()
        session = self.arena.start(incumbent, 0)
        self.adopt(incumbent, session)
        self._given = False
        session.first_step()
        self.arena.warm_up(session, config=incumbent)
        return session


def duel_quads(arena: Arena) -> int:
    """Quads of a look by two processes that take turns."""
    return LONG_DUEL_QUADS if arena.quad_s > LONG_QUAD_S else DUEL_QUADS


def is_unclear(log_ratios: Sequence[float], bar: float = 0.0, most: float = math.inf) -> bool:
    """Whether a first look by processes that take turns asks for a second one, with swapped roles.

    Args:
        log_ratios: Of the first look.
        bar: Log ratio of what it competes with.
        most: Log ratio that the profile leaves room for.
    """
    return WORTH < median(log_ratios) - bar < CLEAR or median(log_ratios) > most + TOO_MUCH


def is_short(arena: Arena, config: Mapping[str, Value]) -> bool:
    """Whether a window in a process that is switched takes so little that none has to stand for another.

    The machine is not as it was: one window that was kept made four changes in a row 0.8x that do nothing.
    """
    return sum(arena.window_steps(config)) * arena.step_s <= SHORT_WINDOW_S


def of_looks(log_ratios: Sequence[Sequence[float]]) -> Estimate:
    """What several looks say together."""
    return between(log_ratios, SCREEN_LEVEL)


def _mark(record: TrialRecord, first: list[Slot], second: list[Slot], threads: int = 1) -> None:
    """Note what disturbed the trial though it was repeated."""
    record.marks += [mark for mark in marks(first, second, threads) if mark not in record.marks]
