"""What a search knows, and how it measures one more configuration within its limits.

Results only nominate: the confirmation on fresh processes decides. All trials go through one Optuna
study by ask and tell, so that its sampler starts the joint stage from everything that was measured.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from advisor.base.durations import write_duration
from advisor.profiles.facts.profile import Profile
from advisor.tuners.benches.crew import Crew
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.knob import Value
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.mechanisms.compiling import compiles
from advisor.tuners.search.asking import Asking, Proposal
from advisor.tuners.search.compile_limit import compiling_within
from advisor.tuners.search.costs import Costs
from advisor.tuners.search.doubt import NEAR
from advisor.tuners.search.eligible import may_be_nominated
from advisor.tuners.search.infeasible import TooMuch
from advisor.tuners.search.known_gains import KnownGains
from advisor.tuners.search.measured import Measured
from advisor.tuners.search.ordering import Expectations
from advisor.tuners.search.race import WORTH, Race
from advisor.tuners.search.record import Recorder, Stage, TrialRecord
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import NotTried, Space
from advisor.tuners.supervision.failures import USER_CAUSES, Cause, Failure, TrialFailed
from advisor.tuners.supervision.limits import Limits

if TYPE_CHECKING:
    import optuna

FAILURES_IN_A_ROW = 5
OVERRUN = 1.25  # times the time left, that the last trial may take by its estimate
AT_LEAST = 2.0  # times the seconds of a look that was still compiling, that compiling is taken to need

LARGE = math.log(1.3)  # log ratio that few fresh processes confirm
NEARLY_LARGE = math.log(1.25)  # of a look, which may show somewhat less than there is

StoppedBy = Literal["budget", "trials", "converged", "failures", "interrupted"]


class BudgetSpent(Exception):
    """No further trial can be begun; ``by`` is what ended it."""

    def __init__(self, by: StoppedBy) -> None:
        super().__init__(by)
        self.by = by


@dataclass(frozen=True)
class Looked:
    """What a race gave: the log ratio over the incumbent, and what ``Race`` knows of it beside that."""

    estimate: Estimate
    input_wait: float | None = None
    pairs: int = 0
    log_ratios: Sequence[float] = ()


@dataclass
class Measuring:
    """Measures configurations against an incumbent, and keeps what came of each.

    Attributes:
        deadline: Monotonic time at which the search must leave the rest to the confirmation.
        latest: The same while nothing was found that would have to be confirmed; not before ``deadline``.
        max_trials: Trials at most, the baseline included.
        measured: What earlier parts of a resumed study measured.
        priorities: Share of the step (0 to 1) that a knob could take away, by the findings that name it.
        next_number: The next trial's number.
        worth: Log ratio of what a sample is worth under a configuration over one of the baseline's: with the
            gradient noise scale it makes goodput of throughput.
        allow_training: What changes the training by asynchronous, stale, compressed or local updates may be
            nominated, not only measured.
        limit_bytes: Of memory, that a configuration may use.
        startup_s: From starting the program to its first step.
        least: Log ratio of a gain that the budget could hardly confirm; looks end below it.
        running: A process that can be switched to the baseline, after a search; the caller's to end.
        known: Gains of single changes.
        verdict_s: Seconds in which a configuration with that score could be confirmed.
        begin_by: Time of the clock by which confirming such a one has to begin; infinite where the rest of
            the budget cannot confirm it, and so nothing has to be left to that.
        earliest: Time of the clock before which that ends no search, unless the gain is large.
        paused: A gain was found that is to be confirmed before the search goes on.
        stands: Score of what was confirmed so far.
        adopted: Is told of each incumbent.
        likely: Is told what is nominated unless something better is found, and its score, while benches may
            be idle.
        crew: All benches; a look goes to any of them where several are taken at once.
        limits: Deadlines of processes; that of compiling follows what is left.
    """

    arena: Arena
    space: Space
    profile: Profile
    study: "optuna.Study"
    recorder: Recorder
    deadline: float
    latest: float = 0.0
    max_trials: int | None = None
    measured: Measured = field(default_factory=Measured)
    priorities: Mapping[str, float] = field(default_factory=dict)
    next_number: int = 1
    worth: Callable[[Configuration], float] = lambda config: 0.0
    allow_training: bool = False
    limit_bytes: int | None = None
    startup_s: float = 0.0
    least: float = WORTH
    clock: Callable[[], float] = time.monotonic
    crew: Crew = field(default_factory=lambda: Crew(time.monotonic))
    limits: Limits = field(default_factory=Limits)
    incumbent: Configuration = field(init=False)
    score: float = 0.0
    stopped_by: StoppedBy = "converged"
    not_tried: list[NotTried] = field(default_factory=list)
    running: Running | None = None
    verdict_s: Callable[[Configuration, float], float] = lambda config, score: math.inf
    begin_by: Callable[[Configuration, float], float] = lambda config, score: math.inf
    earliest: float = field(init=False)
    adopted: Callable[[Configuration], None] = lambda config: None
    likely: Callable[[Configuration, float], None] = lambda config, score: None
    paused: bool = False
    stands: float = 0.0
    known: KnownGains = field(init=False)
    _race: Race = field(init=False)
    _asking: Asking = field(init=False)
    _expectations: Expectations = field(init=False)
    _seen: dict[Configuration, float] = field(default_factory=dict)
    _nominees: set[Configuration] = field(default_factory=set)
    _pairs: dict[Configuration, int] = field(default_factory=dict)
    _before: list[tuple[float, Configuration]] = field(default_factory=list)
    _lost: list[NotTried] = field(default_factory=list)
    _failed_in_a_row: int = 0
    _failed: set[Configuration] = field(default_factory=set)
    _too_much: TooMuch = field(init=False)
    _for_finals_s: float = 0.0
    _apart: bool = False
    _too_long: list[NotTried] = field(default_factory=list)
    _waits: dict[Configuration, float | None] = field(default_factory=dict)
    _unseen: dict[str, list[Value]] = field(default_factory=dict)  # knobs that wait, with values if not all
    _screened: bool = False  # what promises a gain was looked at, and confirmed before the rest
    _proposals: list[Proposal] = field(default_factory=list)  # made ahead of their turn

    def __post_init__(self) -> None:
        self.incumbent, self.earliest = self.space.present, self.deadline
        self._race = Race(self.arena, self.clock, self.limit_bytes, self.space.present, self.least)
        self._too_much = TooMuch(self.space.present)
        self.known = KnownGains(self.arena.knobs, self.space.present)
        self._asking = Asking(self.study, self.space)
        costs = Costs(self.arena, self.startup_s)
        self._expectations = Expectations(self.space, self.arena.knobs, costs, self.priorities, self.least)
        self._seen = {self.space.complete(self.incumbent): 0.0}

    def _adopt(self, score: float, config: Configuration) -> None:
        """Go on from this configuration."""
        self._before.append((self.score, self.incumbent))
        self.score, self.incumbent = score, config
        self.adopted(config)

    def _gain_needed(self, config: Configuration) -> float:
        """Log ratio by which a configuration must be better than the incumbent to take its place.

        Where workers run further ahead than the incumbent's, every window from then on is longer, and where
        a process has to make a form first, every start: that has to be more than the noise of a look. The
        starts of a verdict alone may take no more of what is left than they are worth.
        """
        costs = self._expectations.costs
        more_s = costs.making_s(config) - costs.making_s(self.incumbent)
        if more_s > 0:
            return max(NEAR, costs.worth_making(more_s, max(self.deadline, self.latest) - self.clock()))
        before, after = (
            self.arena.queue_depth({**self.space.present, **each}) for each in (self.incumbent, config)
        )
        return NEAR if 0 < before < after else WORTH

    def _is_ruled_out(self, config: Configuration, start: Configuration) -> bool:
        """Whether more was learnt to be too much, or something in it declined late."""
        return self._too_much.holds(config, start) or self._is_lost(config)

    def _is_lost(self, config: Configuration) -> bool:
        """Whether something in it declined late."""
        return any(config.get(each.knob) == each.value for each in self._lost)

    def _measure(
        self,
        config: Configuration,
        stage: Stage,
        proposal: Proposal | None = None,
        *,
        again: bool = False,
        bar: float = 0.0,
    ) -> float | None:
        """Measure one configuration against the incumbent; its score, or ``None`` when it failed.

        Args:
            config: Complete.
            stage: For the record.
            proposal: Where Optuna's sampler proposed this.
            again: Measure it although it was measured before.
            bar: Log ratio over the incumbent of what it competes with.
        """
        known, score = self._answered(config, proposal, again=again)
        if known:
            return score
        record, asked = self._begun(config, stage, proposal)
        try:
            looked = self._look(record, bar)
        except TrialFailed as failed:
            self._failed_at(record, asked, failed.failure, self._race.lost)
            return None
        return self._took(record, asked, looked)

    def _answered(
        self, config: Configuration, proposal: Proposal | None, *, again: bool
    ) -> tuple[bool, float | None]:
        """Whether nothing has to be measured, and the score then. Args as of ``_measure``."""
        if self._is_lost(config):
            return True, None
        if proposal is None:
            reason = self.space.check(config)
            if reason is not None:
                self._drop(config, reason)
                return True, None
            if config in self._seen and not again:
                return True, self._nominated(config)
        if config in self.measured.failures:
            self._note_failure(config, self.measured.failures[config])
            return True, None
        score = self.measured.score(config, again=again)
        if score is not None:
            return True, self._keep(config, score)
        return not self._can_afford(config), None

    def _begun(
        self, config: Configuration, stage: Stage, proposal: Proposal | None
    ) -> tuple[TrialRecord, int | None]:
        """The record of a trial that begins, and its number in Optuna's study."""
        number, self.next_number = self.next_number, self.next_number + 1
        record = TrialRecord(number, config, stage)
        self.recorder.begin(record, self.score)
        return record, None if self._apart else self._asking.take(config, proposal)

    def _look(self, record: TrialRecord, bar: float = 0.0, look: int | None = None) -> Looked:
        """Race the configuration of a record against the incumbent in this process.

        Raises:
            TrialFailed: As of ``Race.run``.
        """
        self.arena.log = None
        race, until, began = self._race, self._until, self.clock()
        most = self._expectations.most(self.incumbent, record.config)
        try:
            with compiling_within(self.limits, until - began, record.config):
                estimate = race.run(self.incumbent, record.config, record, until, bar, look, most)
        except TrialFailed as failed:
            self._timed_out(record.config, failed.failure, self.clock() - began)
            raise
        finally:
            record.log = self.arena.log
        return Looked(estimate, race.input_wait, race.pairs, race.log_ratios)

    def _timed_out(self, config: Configuration, failure: Failure | None, seconds: float) -> None:
        """Learn from a look of so many seconds whose compiling had not ended, here or on another bench."""
        if failure is not None and failure.cause == "timeout" and compiles(config):
            self._learn_compiling(AT_LEAST * seconds)

    def _learn_compiling(self, seconds: float) -> None:
        """What compiles from now on will take as long."""
        costs = self._expectations.costs
        if seconds > costs.compile_s:
            self._expectations = replace(self._expectations, costs=replace(costs, compile_s=seconds))

    def _failed_at(
        self, record: TrialRecord, asked: int | None, failure: Failure, lost: Mapping[str, str]
    ) -> None:
        """Keep a trial that failed, and learn from it; ``lost`` is as of ``Race``."""
        record.state, record.cause, record.message = "failed", failure.cause, failure.message
        self.recorder.record(record, asked=asked)
        if asked is not None:
            self._asking.fail(asked)
        if lost:
            self._fall_back(lost)
        else:
            self._note_failure(record.config, failure.cause)

    def _took(self, record: TrialRecord, asked: int | None, looked: Looked) -> float | None:
        """Keep what a look at a configuration gave; its score, or ``None`` where it nominates nothing."""
        config, estimate = record.config, looked.estimate
        if record.outcome is not None:
            self._learn_compiling(record.outcome.compile.seconds)
        if record.refused:
            if asked is not None:
                self._asking.refuse(asked)
            self._refuse(record)
            return None
        self._waits[config] = looked.input_wait
        record.against_baseline = estimate.shifted(self.score - self.worth(self.incumbent))
        worth = self.worth(config)
        if worth:
            record.efficiency = math.exp(worth)
        score = record.against_baseline.estimate + worth
        self._pairs[config] = looked.pairs
        self.known.note(self.incumbent, config, estimate.shifted(worth - self.worth(self.incumbent)))
        self.recorder.record(record, asked=asked, value=score)
        if asked is not None:
            self._asking.tell(asked, score)
        return self._keep(config, score)

    def _keep(self, config: Configuration, score: float) -> float | None:
        """Remember what was measured; ``None`` where it nominates nothing."""
        self._seen[config] = score
        self._failed_in_a_row = 0
        return self._nominated(config)

    def _nominated(self, config: Configuration) -> float | None:
        """The score of what was seen, if it may be recommended."""
        allowed = may_be_nominated(config, self.space, self.arena.knobs, allow_training=self.allow_training)
        if not math.isfinite(self._seen[config]) or not allowed:
            return None
        self._nominees.add(config)
        return self._seen[config]

    @property
    def _until(self) -> float:
        """Time of the clock after which the rest is left to what was found, if that can be confirmed."""
        best = max(self._nominees, key=lambda config: (self._seen[config], config.key), default=None)
        if best is None or self._seen[best] <= self.stands + WORTH:
            return max(self.deadline, self.latest)
        begin_by = self.begin_by(best, self._seen[best])
        if begin_by == math.inf:
            return max(self.deadline, self.latest)
        earliest = -math.inf if self._seen[best] - self.stands >= LARGE else self.earliest
        return min(self.deadline - self._for_finals_s, max(earliest - self._for_finals_s, begin_by))

    def _can_afford(self, config: Configuration) -> bool:
        """Whether there is time for a trial; one that would take much more makes way for others.

        Raises:
            BudgetSpent: For none.
        """
        now, until = self.clock(), self._until
        counted = self.next_number - len(self.measured.interrupted)
        if self.max_trials is not None and counted >= self.max_trials:
            raise BudgetSpent("trials")
        if now > until:
            raise BudgetSpent("budget")
        seconds, left = self._expectations.seconds(self.incumbent, config), until - now
        if seconds <= OVERRUN * left:
            return True
        reason = f"a look takes about {write_duration(seconds)}, with {write_duration(left)} left for it"
        told = {(each.knob, each.value) for each in self._too_long}
        for name, value in config.changed(self.incumbent).items():
            if (name, value) not in told:
                self._too_long.append(NotTried(name, value, reason))
                self._leave_out(self._too_long[-1])
        return False

    def _note_failure(self, config: Configuration, cause: Cause) -> None:
        """Learn from a failure; it is not tried again. Too many end the search."""
        self._seen[config] = -math.inf
        self._too_much.learn(config, cause, self.incumbent)
        self._failed.add(config)
        self._failed_in_a_row += 1 if cause in USER_CAUSES else -self._failed_in_a_row
        tried = max(1, self.next_number - 1)
        if self._failed_in_a_row >= FAILURES_IN_A_ROW or (tried >= 10 and len(self._failed) > tried / 2):
            raise BudgetSpent("failures")

    def _refuse(self, record: TrialRecord) -> None:
        """A refusal in the process counts neither as a trial nor as a failure."""
        if record.number == self.next_number - 1:
            self.next_number -= 1
        for name, reason in record.refused.items():
            self._leave_out(NotTried(name, record.config[name], reason))
        self._seen[record.config] = float("-inf")

    def _fall_back(self, refused: Mapping[str, str]) -> None:
        """Settings of the incumbent declined late: never try them again, go on from the last one without."""
        for name, reason in refused.items():
            self._lost.append(NotTried(name, self.incumbent[name], reason))
            self._leave_out(self._lost[-1])
        self._nominees = {config for config in self._nominees if not self._is_lost(config)}
        while self._is_lost(self.incumbent):
            self.score, self.incumbent = self._before.pop()

    def _drop(self, config: Configuration, reason: str) -> None:
        for name, value in config.changed(self.incumbent).items():
            self._leave_out(NotTried(name, value, reason))

    def _leave_out(self, entry: NotTried) -> None:
        if entry not in self.not_tried:
            self.not_tried.append(entry)
