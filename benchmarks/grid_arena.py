"""An arena that starts nothing: it answers every comparison from a measured grid.

What it answers is the difference of two cells' log ratios, with noise drawn from what the candidate's own
quads showed; by how much processes differ is no noise of a process that both arms share. What it costs is
added to a clock of its own: the recorded seconds of a pair of processes, or four slots of the recorded steps
for a quad within one process.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from grids import Cell, Grid

from advisor.tuners.comparing.duel import Arena, Duel
from advisor.tuners.comparing.measure import median
from advisor.tuners.comparing.ways import LIVE, WINDOWS
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.launching.session import Session, SessionEnded
from advisor.tuners.search.race import DUEL_QUADS
from advisor.tuners.search.record import TrialRecord
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.messages import Slot, SlotMeasured, TrialOutcome
from advisor.tuners.trial.spec import Target

CLOSE = math.log(0.95)  # of the best: where a search counts as done


class GridSession(Session):
    """A process that exists on paper: nothing to wait for, nothing to end."""

    def __init__(self) -> None:
        self._running = True

    @property
    def alive(self) -> bool:
        """Until it is told to stop."""
        return self._running

    def first_step(self) -> float:
        """Made already."""
        return 0.0

    def stop(self) -> TrialOutcome:
        """Nothing is left behind."""
        self._running = False
        return TrialOutcome("stopped")

    def kill(self) -> None:
        """As ``stop``."""
        self._running = False


@dataclass(kw_only=True)
class GridArena(Arena):
    """An ``Arena`` over a measured grid.

    Attributes:
        seed: Of the noise.
        now: Seconds that everything asked so far would have taken.
    """

    grid: Grid
    seed: int = 0
    now: float = 0.0
    _space: Space = field(init=False)
    _cells: dict[Configuration, Cell] = field(init=False)
    _speeds: dict[Configuration, float] = field(init=False)
    _best: float = field(init=False)
    _random: Random = field(init=False)
    _at_hand: set[Configuration] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._space, self._cells, self._speeds = self.grid.space(), self.grid.by_config(), self.grid.speeds()
        self._best = max(self._speeds.values())
        self._random = Random(self.seed)

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
    ) -> Duel:
        """One instance of the candidate's cell; half of its time where a window of ``first`` is at hand."""
        config = self._meant(second)
        cell = self._cells[config]
        seconds = self._random.choice(cell.seconds) if cell.seconds else 2 * self.grid.start_s
        if how == LIVE or cell.how == LIVE:
            seconds = self.grid.start_s * (1 if how == LIVE else 2) + quads * self._quad_s(first, second)
        at_hand = how == WINDOWS and reuse and self._meant(first) in self._at_hand
        self.now += seconds / 2 if at_hand else seconds
        self._at_hand.update({config, self._meant(first)} if how == WINDOWS else ())
        self._fail_if_recorded(cell)
        ratios = self._ratios(first, second, 1 if how == WINDOWS else quads)
        message = self._message(first, second)
        return Duel(how, ratios, [self._slot(first)], [self._slot(second)], second_message=message)

    def quads(
        self,
        sessions: tuple[Session, Session],
        configs: tuple[Mapping[str, Value] | None, ...],
        quads: int,
        deadline: float = math.inf,
        by_work: bool = False,
    ) -> tuple[list[float], tuple[list[Slot], list[Slot]], tuple[SlotMeasured, SlotMeasured]]:
        """Quads in one process; a candidate that failed in the grid ends it."""
        first, second = configs
        assert first is not None and second is not None, "only processes that both arms share take quads"
        if not sessions[0].alive:
            raise SessionEnded(TrialOutcome("ended"))
        self.now += quads * self._quad_s(first, second)
        try:
            self._fail_if_recorded(self._cells[self._meant(second)])
        except TrialFailed:
            sessions[0].kill()
            raise
        slots = [self._slot(first)] * 2 * quads, [self._slot(second)] * 2 * quads
        ratios = self._ratios(first, second, quads, shared=True)
        return ratios, slots, (SlotMeasured(), self._message(first, second))

    def start(self, config: Mapping[str, Value], number: int, **options: Any) -> Session:
        """A process, warm from its start."""
        self.now += self.grid.start_s
        return GridSession()

    def warm_up(
        self, session: Session, budget_s: float = math.inf, config: Mapping[str, Value] | None = None
    ) -> list[Slot]:
        """Included in what a start costs."""
        return []

    def evaluate(self, config: Mapping[str, Value]) -> float | None:
        """One configuration against the default, measured once; ``None`` if it failed or was refused."""
        default = self.grid.present
        if self._meant(config) == self._meant(default):
            self.now += DUEL_QUADS * self._quad_s(default, default)
            return 0.0
        how = self.how(default, config)
        try:
            if how == LIVE:
                session = GridSession()
                ratios, _, (_, message) = self.quads((session, session), (default, config), DUEL_QUADS)
            else:
                duel = self.duel(default, config, how=how, quads=DUEL_QUADS)
                ratios, message = duel.log_ratios, duel.second_message
        except TrialFailed:
            return None
        return None if message.refused else median(ratios)

    def share(self, config: Mapping[str, Value]) -> float:
        """True speed of a configuration over that of the best cell; 0 where it has none."""
        speed = self._speeds.get(self._meant(config))
        return 0.0 if speed is None else math.exp(speed - self._best)

    def _meant(self, config: Mapping[str, Value]) -> Configuration:
        return self._space.complete({name: config[name] for name in self.grid.present if name in config})

    def _ratios(
        self, first: Mapping[str, Value], second: Mapping[str, Value], count: int, *, shared: bool = False
    ) -> list[float]:
        """Of so many quads; what a pair of processes differs by is no noise of one that both arms share."""
        before, after = self._meant(first), self._meant(second)
        difference = self._speeds.get(after, 0.0) - self._speeds.get(before, 0.0)
        cell = self._cells[after] if self._cells[after].instances else self._cells[before]
        if not cell.instances:
            return [difference] * count
        instance = self._random.choice(cell.instances)
        centre = median(instance) if shared else cell.log_ratio
        return [difference + self._random.choice(instance) - centre for _ in range(count)]

    def _quad_s(self, first: Mapping[str, Value], second: Mapping[str, Value]) -> float:
        steps = [self._cells[self._meant(config)].step_s or self.grid.step_s for config in (first, second)]
        return 2 * (self.grid.slot_steps + 1) * sum(steps)

    def _slot(self, config: Mapping[str, Value]) -> Slot:
        return Slot((self._cells[self._meant(config)].step_s or self.grid.step_s,))

    def _message(self, first: Mapping[str, Value], second: Mapping[str, Value]) -> SlotMeasured:
        changed = [name for name in self.grid.present if first.get(name) != second.get(name)]
        cell = self._cells[self._meant(second)]
        refused = {name: cell.reason for name in changed} if cell.state == "refused" else {}
        return SlotMeasured(applied=() if refused else tuple(changed), refused=refused)

    def _fail_if_recorded(self, cell: Cell) -> None:
        if cell.state == "failed":
            raise TrialFailed(Failure(cell.cause or "internal", cell.reason))


def grid_arena(grid: Grid, seed: int, queue_depth: Callable[[Mapping[str, Value]], int]) -> GridArena:
    """An arena over one grid; its launcher is there for the type, and never entered."""
    launcher = Launcher(Target("script", grid.workload), Path())
    return GridArena(
        launcher=launcher,
        knobs=KNOBS,
        present=dict(grid.own),
        step_s=grid.step_s,
        sigma=grid.sigma,
        queue_depth=queue_depth,
        fixed_steps=grid.slot_steps,
        grid=grid,
        seed=seed,
    )


@dataclass
class Reached:
    """When what a search would return if it were stopped first came close to the best; a ``Recorder``.

    Attributes:
        worth: Log ratio by which a score must exceed the best one so far to take its place.
        at: Evaluations and seconds until then, ``None`` while it is not so.
    """

    arena: GridArena
    worth: float = 0.0
    evaluations: int = 0
    score: float = 0.0
    config: dict[str, Value] = field(default_factory=dict)
    at: tuple[int, float] | None = None

    def __post_init__(self) -> None:
        self.config = dict(self.arena.grid.present)
        self._look()

    def told(self, config: Mapping[str, Value], score: float | None) -> None:
        """One configuration was evaluated; ``None`` when that failed."""
        self.evaluations += 1
        if score is not None and score > self.score + self.worth:
            self.score, self.config = score, dict(config)
        self._look()

    def settled(self, config: Mapping[str, Value]) -> None:
        """What the search returned at its end; where it left what was close again it has not arrived."""
        self.config = dict(config)
        if not self._is_close:
            self.at = None
        self._look()

    def begin(self, trial: TrialRecord, score: float) -> None:
        """A trial begins; nothing is known of it yet."""

    def record(self, trial: TrialRecord, *, asked: int | None = None, value: float | None = None) -> None:
        """A trial of advisor's own search has ended."""
        estimate = trial.against_baseline
        self.told(trial.config, None if estimate is None else estimate.estimate)

    def _look(self) -> None:
        if self.at is None and self._is_close:
            self.at = self.evaluations, self.arena.now

    @property
    def _is_close(self) -> bool:
        return math.log(max(self.arena.share(self.config), 1e-9)) >= CLOSE
