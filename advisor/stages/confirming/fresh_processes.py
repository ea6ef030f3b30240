"""Measurements in fresh processes, one after the other while the budget lasts; and pairs that confirm."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from advisor.base.settings import Value
from advisor.base.unit import Unit
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.pair_waves import PairWaves
from advisor.tuners.comparing.duel import Duel
from advisor.tuners.comparing.instance import Instance
from advisor.tuners.comparing.looks import LOOKS, MIN_INSTANCES, Decision, confirm, is_clear
from advisor.tuners.comparing.pair_places import Where
from advisor.tuners.comparing.retrying import undisturbed
from advisor.tuners.supervision.failures import Failure, OutOfTime


class Timed(Protocol):
    """What one measurement gives."""

    @property
    def seconds(self) -> float:
        """That it took, starts included."""


T = TypeVar("T", bound=Timed)


@dataclass
class FreshProcesses:
    """Decides whether one more measurement can be begun; takes those anew that something disturbed.

    Attributes:
        overrun_s: What the first ``least`` measurements, those of what is clear already, and what follows may
            take beyond the budget.
        expected: Seconds that so many measurements should take; those taken tell how far it is off.
        least: How many there must be.
        after_s: Seconds of what must follow.
        disturbed: What cut measurements off.
    """

    bench: MeasuredBench
    overrun_s: float
    expected: Callable[[int], float]
    least: int = MIN_INSTANCES
    after_s: float = 0.0
    disturbed: list[str] = field(default_factory=list)
    _taken_s: list[float] = field(default_factory=list)

    @property
    def end(self) -> float:
        """Time of the clock at which all of it has ended."""
        return self.bench.deadline + self.overrun_s

    def measure(
        self,
        index: int,
        once: Callable[[], T],
        cut_off: Callable[[Failure], None] = lambda failure: None,
        together: int = 1,
        clear: bool = False,
    ) -> T | None:
        """One more measurement; ``None`` when it is too late for that, or was before it had ended.

        Args:
            index: How many there are already.
            once: Measures, in processes that it starts.
            cut_off: Is told of every failure after which it is taken anew.
            together: How many are needed from this one on before any of them tells something.
            clear: Those that there are show a gain, and a few more may confirm it.

        Raises:
            TrialFailed: It failed by itself, or was cut off twice.
        """
        end = self.end
        last = end if clear or index < self.least else self.bench.deadline

        def late() -> bool:
            through = self.bench.clock() + self._still_s(together)
            return through > last or through + self.after_s > end

        def note(failure: Failure) -> None:
            self.disturbed.append(failure.message)
            cut_off(failure)

        try:
            measured = undisturbed(once, late, note)
        except OutOfTime:
            return None
        if measured is not None:
            self._taken_s.append(measured.seconds)
        return measured

    def _still_s(self, count: int) -> float:
        """Seconds of so many more measurements, by those that there are."""
        there = len(self._taken_s)
        planned, more = self.expected(there), self.expected(there + count) - self.expected(there)
        return sum(self._taken_s) / planned * more if planned > 0 else more


@dataclass
class FreshPairs:
    """Two configurations in pairs of fresh processes, their roles swapped in every other pair.

    The second one comes last in the pair that completes a look: its process may go on.

    Attributes:
        how: The way in which they are compared.
        quads: Of one pair.
        number: Of the trial.
        told: What the progress says of a pair, before its number.
        hold: The last process of the second one is held by the arena.
        options: How else a process is to be started, by its pair's number and its configuration.
        where: Each pair was measured, where that was on one of several benches.
        waves: Of these benches, where there are more than this process's.
    """

    processes: FreshProcesses
    first: Mapping[str, Value]
    second: Mapping[str, Value]
    how: str
    quads: int
    told: str
    number: int = 0
    hold: bool = False
    options: Callable[[int, Mapping[str, Value]], Mapping[str, int]] = lambda pair, config: {}
    where: list[Where] = field(default_factory=list)
    waves: PairWaves | None = None
    _cut_off: Callable[[Failure], None] = lambda failure: None
    _begun_at: float | None = None

    def __post_init__(self) -> None:
        crew = self.processes.bench.crew
        if crew.size > 1:
            until = self.processes.end - self.processes.after_s
            self.waves = PairWaves(crew, self._asked, self._here, self.where, until=until)

    def begin(self, place: int) -> bool:
        """Start the processes of a pair while one of the program goes on in which nothing is timed.

        Returns:
            Whether they were: not for requests or memory, not beside other benches, by ``Instance.begin``.
        """
        bench = self.processes.bench
        session, comparable = bench.baseline.session, bench.settings.unit is Unit.STEP and bench.arena.timed
        if self.waves is not None or session is None or not session.alive or not comparable:
            return False
        begun = self._asked(place, hold=False).begin(bench.arena)
        self._begun_at = bench.clock() if begun else None
        return begun

    def drop(self) -> None:
        """Want no more of what was begun."""
        self.processes.bench.arena.ahead.drop()
        if self.waves is not None:
            self.waves.drop()

    def confirm(
        self,
        log_ratios: Callable[[Duel], Sequence[float]],
        *,
        min_gain: float,
        earlier: Sequence[Sequence[float]] = (),
        cut_off: Callable[[Failure], None] = lambda failure: None,
        wanting: Callable[[], bool] = lambda: False,
    ) -> tuple[Decision, list[list[float]]]:
        """Measure pairs until ``confirm`` of ``comparing.looks`` decides, or the budget ends.

        Args:
            log_ratios: Keeps a pair, and says what counts of it.
            min_gain: Relative gain that is asked for.
            earlier: Log ratios by pair that are there already.
            cut_off: As of ``FreshProcesses.measure``.
            wanting: As of ``confirm`` of ``comparing.looks``.

        Returns:
            The decision and all log ratios.

        Raises:
            TrialFailed: As of ``FreshProcesses.measure``, or by ``log_ratios``.
        """
        bench, waves = self.processes.bench, self.waves
        level, seen = bench.settings.confidence, list(earlier)
        self._cut_off = cut_off

        def instance(index: int) -> Sequence[float] | None:
            if waves is None:
                bench.progress.part(f"{self.told} {index + 1}")
            elif not waves.has(index):
                bench.progress.part(f"{self.told} {index + 1} and more, on {waves.crew.size} benches")
            if waves is not None:
                pair = waves.next(index)
            else:
                together = next(stop for stop in LOOKS if stop > index) - index
                asked = self._asked(index, self.hold and index + 1 in LOOKS)
                pair = self._here(asked, together, is_clear(seen, min_gain, level, self.how))
            if pair is None:
                return None
            seen.append(log_ratios(pair))
            return seen[-1]

        try:
            return confirm(
                instance,
                min_gain=min_gain,
                level=level,
                earlier=earlier,
                how=self.how,
                where=self.where,
                wanting=wanting,
            )
        finally:
            self.drop()

    def _asked(self, place: int, hold: bool) -> Instance:
        return Instance(
            place,
            dict(self.first),
            dict(self.second),
            self.how,
            self.quads,
            self.number,
            hold=self.hold and hold,
            first_start=dict(self.options(place, self.first)),
            second_start=dict(self.options(place, self.second)),
        )

    def _here(self, asked: Instance, together: int, clear: bool = False) -> Duel | None:
        """Measure a pair in this process, unless it is too late for so many together."""
        measure = self.processes.measure
        return measure(asked.place, lambda: self._measured(asked), self._cut_off, together, clear)

    def _measured(self, asked: Instance) -> Duel:
        """A pair; starting its processes beforehand counts as if it had been done now."""
        bench, begun_at = self.processes.bench, self._begun_at
        self._begun_at = None
        before_s = 0.0 if begun_at is None else min(bench.clock() - begun_at, bench.baseline.startup_s)
        duel = asked.measured(bench.arena)
        duel.seconds += before_s
        return duel
