"""Two configurations side by side: in one process, in two that take turns, or window by window.

A duel gives log ratios of seconds per unit of work, positive where the second one is faster. Which way
is used follows from what differs and from whether worker processes load the data: a paused program
gives its workers time to run ahead, so loaders are compared over whole windows only: of fresh processes, or
of one whose loaders are made anew before each (``one_window.py``).
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from advisor.base.unit import Unit
from advisor.profiles.derived.epochs import Epochs
from advisor.tuners.comparing.ended_early import SLOTS, ended_early
from advisor.tuners.comparing.excluded import disturbance, refuse_collapse, set_apart
from advisor.tuners.comparing.held import Held
from advisor.tuners.comparing.measure import quad_log_ratio
from advisor.tuners.comparing.one_window import fresh_window, switched_window
from advisor.tuners.comparing.standby import Ahead, Start
from advisor.tuners.comparing.warm_up import warmed_up
from advisor.tuners.comparing.ways import LIVE, SWITCHED, WINDOWS, Ways
from advisor.tuners.comparing.window_pair import window_pair
from advisor.tuners.comparing.windows import HOPELESS, KeptWindows, Window
from advisor.tuners.comparing.worker_starts import steps_before
from advisor.tuners.knob import AnyKnob, Value
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.supervision.failures import OutOfTime
from advisor.tuners.trial.messages import Slot, SlotMeasured, TrialOutcome

SLOT_LIMIT_S = 0.5
MEMORY_SHARE = 0.6  # of free memory, that processes at once may take
DEVICE_SHARE = 0.9  # the same of the memory of a device


@dataclass
class Duel:
    """What one instance (a process, or a pair of them) gave.

    ``disturbed`` are slots of both that do not count, since something else ran beside one of them alone.
    """

    how: str
    log_ratios: list[float]
    first: list[Slot] = field(default_factory=list)
    second: list[Slot] = field(default_factory=list)
    first_outcome: TrialOutcome | None = None
    second_outcome: TrialOutcome | None = None
    first_message: SlotMeasured = field(default_factory=SlotMeasured)
    second_message: SlotMeasured = field(default_factory=SlotMeasured)
    startup_s: float | None = None
    unseen: float = 0.0  # of the second one's window, see ``Window``
    seconds: float = 0.0
    disturbed: tuple[list[Slot], list[Slot]] = field(default_factory=lambda: ([], []))


@dataclass
class Arena(Ways):
    """Runs duels between configurations of one program.

    Attributes:
        present: The program's own setting of every knob.
        step_s: Seconds of a baseline step; sets how long a slot is.
        startup_s: From starting it to its first step; sets how long a window of a fresh process is.
        sigma: Spread of one quad's log ratio, from the baseline against itself.
        period: Steps after which the order of optimizers repeats.
        queue_depth: Reads how many batches its workers can run ahead.
        epochs: How many steps its epochs have, where that is known.
        two_fit: Two processes at once fit into memory.
        three_fit: So do three.
        at_once: Two may start at the same time: their threads have a CPU each.
        start_at_once: So may two that wait before their first batch: until then they need no more CPUs.
        waits: A process of the program can wait before it loads its first batch.
        max_steps: Steps that one launch of the program has, when it is short.
        fixed_steps: Steps of a slot, when the user set them.
        fixed_warmup: Steps of warm-up, when the user set them.
        log: Folder with the logs of the process started last.
        ahead: Holds processes that have started and wait for their turns.
        held: Holds the candidate's process of the last instance.
        threads: Of torch, in the program as it is.
        switches: Knobs that are not live, and can be switched between two steps of this program all the same.
        never_stable: Processes whose step time had not settled when warm-up was cut short.
        excluded: Slots that were left out so far, by what disturbed them, and steps set apart.
        disturbed: Those that were left out of the quads measured last, of both arms.
        clock: Seconds, monotonic; of the arena and of all who compare in it.
        kept: Windows that a search may reuse.
        latest_start: By the clock; what would start later fails with ``OutOfTime``.
        more: How else a process of a configuration is to be started (``Launcher.start``).
        fixed: Values that are set in all processes: what the program showed of them was not its own.
    """

    timed: ClassVar[bool] = True  # what is compared is time, which other load falsifies
    unit: ClassVar[Unit] = Unit.STEP

    launcher: Launcher
    knobs: Mapping[str, AnyKnob]
    present: Mapping[str, Value]
    training_dataset: int | None = None
    step_s: float = 0.1
    startup_s: float = 0.0
    sigma: float = 0.05
    period: int = 1
    queue_depth: Callable[[Mapping[str, Value]], int] = lambda config: 0
    epochs: Epochs | None = None
    two_fit: bool = True
    three_fit: bool = False
    at_once: bool = True
    start_at_once: bool = False
    waits: bool = False
    max_steps: int | None = None
    fixed_steps: int | None = None
    fixed_warmup: int | None = None
    log: str | None = None
    threads: int = 1
    switches: Collection[str] = ()
    never_stable: int = 0
    excluded: Counter[str] = field(default_factory=Counter)
    disturbed: tuple[list[Slot], list[Slot]] = field(default_factory=lambda: ([], []))
    ahead: Ahead = field(default_factory=Ahead)
    held: Held = field(default_factory=Held)
    clock: Callable[[], float] = time.monotonic
    latest_start: float = math.inf
    kept: KeptWindows = field(default_factory=KeptWindows)
    more: Callable[[Mapping[str, Value]], Mapping[str, Any]] = lambda config: {}
    fixed: Mapping[str, Value] = field(default_factory=dict)

    def duel(
        self,
        first: Mapping[str, Value],
        second: Mapping[str, Value],
        *,
        how: str,
        quads: int,
        swapped: bool = False,
        number: int = 0,
        deadline: float = math.inf,
        reuse: bool = False,
        followed: bool = False,
        hold: bool = False,
    ) -> Duel:
        """One instance: fresh processes, warmed up, then ``quads`` quads (one window each for windows).

        Args:
            first: The one that others are compared with.
            second: The candidate.
            how: ``live``, ``baton`` or ``windows``; what is switched has ``switched``.
            quads: How many quads at most.
            swapped: The candidate takes the first turn and starts first.
            number: Trial number for the records.
            deadline: Monotonic time after which no further quad is begun.
            reuse: While screening: a window of ``first`` that was measured before stands for a new one.
            followed: Another instance with roles swapped comes next; its process may start with this one's.
            hold: The candidate's process goes on in ``held``, without an outcome, if times are compared.

        Raises:
            TrialFailed: Either program failed, or its threads collapsed and their number is what differs;
                ``Interrupted`` when asked to stop.
        """
        began, hold = self.clock(), hold and self.timed
        if how == WINDOWS:

            def window(config: Mapping[str, Value]) -> Window:
                return fresh_window(self, config, number, hold=hold and config is second)

            kept = self.kept if reuse else None
            try:
                if self.start_together(first, second) and (kept is None or kept.of(first) is None):
                    arms = (second, first) if swapped else (first, second)
                    self.ahead.both(arms, self.starting(how, number))
                result = self._windows(WINDOWS, first, second, swapped, kept, window)
            finally:
                self.ahead.drop()
        else:
            arms = (second, first) if swapped else (first, second)
            followed = followed and how == LIVE and self.starts(first, second) == 1
            result = self._turns(arms, how, quads, swapped, number, deadline, followed, hold)
        result.seconds = self.clock() - began
        return result

    def starting(self, how: str, number: int) -> Start:
        """Starts processes of a way and a trial: those for windows wait before their first batch."""
        return lambda config: self.start(config, number, **({"waits": True} if how == WINDOWS else {}))

    def switched(
        self,
        session: Running,
        first: Mapping[str, Value],
        second: Mapping[str, Value],
        *,
        swapped: bool = False,
        kept: KeptWindows | None = None,
    ) -> Duel:
        """One window of each configuration in a process that is switched to it.

        Args:
            session: Has made its first step; ``settled`` of its configuration is that of both.
            first: The one that others are compared with.
            second: The candidate.
            swapped: The candidate comes first.
            kept: Earlier windows of this process; one of ``first`` stands for a new one.

        Raises:
            SessionEnded: The program came to its end before.
            TrialFailed: As of ``duel``.
        """
        began = self.clock()

        def window(config: Mapping[str, Value]) -> Window:
            return switched_window(self, session, config)

        result = self._windows(SWITCHED, first, second, swapped, kept, window)
        result.seconds = self.clock() - began
        return result

    def start(self, config: Mapping[str, Value], number: int, **options: Any) -> Running:
        """Start one program under ``config``."""
        self.held.drop()
        if self.clock() > self.latest_start:
            raise OutOfTime
        own = {name: value for name, value in self.present.items() if name not in self.fixed}
        session = self.launcher.start(
            number,
            config,
            own,
            training_dataset=self.training_dataset,
            **{**self.more(config), **options},
        )
        self.log = str(session.folder)
        return session

    def warm_up(
        self, session: Running, budget_s: float = math.inf, config: Mapping[str, Value] | None = None
    ) -> list[Slot]:
        """Run windows until two agree within noise, at least three steps; all of them are returned."""
        before = steps_before(config or {}, self.knobs, self.epochs)
        if before:
            session.slot(1, drop=before)
        if self.fixed_warmup is not None:
            return [session.slot(max(1, self.fixed_warmup), drop=0)]
        windows, stable = warmed_up(session, self.period, budget_s, self.clock)
        self.never_stable += not stable
        return windows

    def quads(
        self,
        sessions: tuple[Running, Running],
        configs: tuple[Mapping[str, Value] | None, ...],
        quads: int,
        deadline: float = math.inf,
        by_work: bool = False,
    ) -> tuple[list[float], tuple[list[Slot], list[Slot]], tuple[SlotMeasured, SlotMeasured]]:
        """Quads A B B A of running sessions: log ratios, and slots and last messages of both arms.

        Args:
            sessions: The process of each arm; the same one twice when both live in it.
            configs: What to switch to before each arm's slots; ``None`` for a process of its own.
            quads: How many at most.
            deadline: Monotonic time after which no further quad is begun.
            by_work: Steps of the arms do different amounts of work: compare per sample, not per step.

        Raises:
            SessionEnded: The program came to its end before the first quad was complete.
        """
        limit_s = max(SLOT_LIMIT_S, HOPELESS * self.steps() * self.step_s)
        ratios: list[float] = []
        slots: tuple[list[Slot], list[Slot]] = ([], [])
        messages = [SlotMeasured(), SlotMeasured()]
        before: int | None = None  # the arm whose slot was the last
        self.disturbed = ([], [])
        spoilt = 0  # where most quads are disturbed, they are taken as they come
        while len(ratios) < quads and (not ratios or self.clock() < deadline):
            try:
                collected: tuple[list[Slot], list[Slot]] = ([], [])
                for arm in (0, 1, 1, 0):
                    drop = 0 if self.steps() == 1 and arm == before else 1
                    collected[arm].append(
                        sessions[arm].slot(self.steps(), drop=drop, config=configs[arm], limit_s=limit_s)
                    )
                    messages[arm], before = sessions[arm].last, arm
            except SessionEnded:
                if not ratios:
                    raise
                break
            self.excluded.update(set_apart([*collected[0], *collected[1]]))
            reason = disturbance(*collected, self.threads)
            if reason is not None and spoilt < max(1, quads // 2):
                spoilt += 1
                self.excluded[reason] += 4
                for arm in (0, 1):
                    self.disturbed[arm].extend(collected[arm])
                continue
            (a1, a2), (b1, b2) = ([self.seconds(slot, by_work) for slot in arm] for arm in collected)
            ratios.append(quad_log_ratio(a1, b1, b2, a2))
            for arm in (0, 1):
                slots[arm].extend(collected[arm])
        return ratios, slots, (messages[0], messages[1])

    def _turns(
        self,
        arms: tuple[Mapping[str, Value], Mapping[str, Value]],
        how: str,
        quads: int,
        swapped: bool,
        number: int,
        deadline: float,
        followed: bool,
        hold: bool,
    ) -> Duel:
        live, start = how == LIVE, self.starting(how, number)
        sessions: list[Running] = []
        try:
            if not self.at_once and (followed or not live) and self.start_together(*arms):
                self.ahead.both(arms, self.starting(WINDOWS, number))
            if live:
                following = arms[1] if followed and self.at_once else None
                sessions = [self.ahead.first(arms[0], following, start)]
                self.log = str(sessions[0].folder)
            else:
                sessions = self.ahead.all(arms, start, self.at_once)
            for session, config in zip(sessions, arms, strict=False):
                self.warm_up(session, config=config)
            if live:
                sessions = [sessions[0], sessions[0]]
                sessions[0].slot(max(min(2, self.steps()), self.period), drop=1, config=arms[1])
            ratios, slots, messages = self.quads(
                (sessions[0], sessions[1]),
                arms if live else (None, None),
                quads,
                deadline,
                by_work(arms[0], arms[1]),
            )
            second = 0 if swapped else 1
            if hold and sessions[second].alive:
                self.held.keep(arms[second], sessions[second])
            outcomes = [each.stop() if each.alive and not self.held.has(each) else None for each in sessions]
        except SessionEnded as ended:
            raise ended_early(self, ended, SLOTS if live else SLOTS // 2) from ended
        finally:
            for session in sessions:
                if not self.held.has(session):
                    session.kill()
        sign, order = (-1, (1, 0)) if swapped else (1, (0, 1))
        return Duel(
            how,
            [sign * ratio for ratio in ratios],
            slots[order[0]],
            slots[order[1]],
            None if live else outcomes[order[0]],
            None if live else outcomes[order[1]],
            messages[order[0]],
            messages[order[1]],
            sessions[0].startup_s,
            disturbed=(self.disturbed[order[0]], self.disturbed[order[1]]),
        )

    def _windows(
        self,
        how: str,
        first: Mapping[str, Value],
        second: Mapping[str, Value],
        swapped: bool,
        kept: KeptWindows | None,
        take: Callable[[Mapping[str, Value]], Window],
    ) -> Duel:
        base, candidate = window_pair(self, how, (first, second), swapped, kept, take)
        if self.timed:
            refuse_collapse((first, second), ([base.slot], [candidate.slot]))
        return Duel(
            how,
            [self._gain(base, candidate, by_work(first, second))],
            [base.slot],
            [candidate.slot],
            base.outcome,
            candidate.outcome,
            base.message,
            candidate.message,
            candidate.startup_s,
            candidate.unseen,
        )

    def seconds(self, slot: Slot, by_work: bool) -> float:
        """What a comparison takes of a slot: seconds per step, or per sample where steps differ in work."""
        return slot.seconds_per_unit if by_work else slot.mean_s

    def _gain(self, base: Window, candidate: Window, by_work: bool) -> float:
        """Log ratio of one window over another."""
        first, second = (self.seconds(each.slot, by_work) * (1 + each.unseen) for each in (base, candidate))
        return math.log(first / second)


def by_work(first: Mapping[str, Value], second: Mapping[str, Value]) -> bool:
    """Whether a step of one configuration does more work than a step of the other."""
    return any(first.get(name) != second.get(name) for name in ("batch_size", "serving_batch"))
