"""The stages of a search: one knob at a time against the incumbent, then jointly by Optuna.

Results only nominate: the confirmation on fresh processes decides. All trials go through one Optuna
study by ask and tell, so that its sampler starts the joint stage from everything that was measured.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from advisor.profiles.profile import Profile
from advisor.tuners.duel import LIVE, Arena
from advisor.tuners.failures import RESOURCE_CAUSES, USER_CAUSES, Failure, TrialFailed
from advisor.tuners.knob import Value
from advisor.tuners.measure import Estimate, Slot, between, median, single, within
from advisor.tuners.record import Recorder, Stage, TrialRecord
from advisor.tuners.session import Session, SessionEnded
from advisor.tuners.space import NotTried, Space

if TYPE_CHECKING:
    import optuna

LIVE_LOOKS = (1, 3, 6, 12)  # quads at which a live race may end
HOPELESS = -0.3  # log ratio of the first quad that ends a race at once
DUEL_QUADS = 4
DUEL_LOOKS = 2  # instances of a restart knob while screening
SCREEN_LEVEL = 0.9  # two-sided, of a look that only nominates
WORTH = 0.01  # log ratio below which a change is not worth carrying on
PAST_THE_PEAK = 2  # numbers in a row that give no more than the best so far
CLEAR = 0.2  # log ratio that needs no second look while screening
LOADING_PRICE, RESTART_PRICE = 3.0, 8.0  # of a trial, in trials of a live knob: starts, windows, compilation
FRUITLESS = 6  # joint proposals in a row that change nothing: converged
FAILURES_IN_A_ROW = 5
INTERACTING = (
    "amp",
    "matmul_precision",
    "batch_size",
    "optimizer_implementation",
    "channels_last",
    "execution",
)

Config = dict[str, Value]


StoppedBy = Literal["budget", "trials", "converged", "failures", "interrupted"]


class BudgetSpent(Exception):
    """No further trial can be begun; ``by`` is what ended it."""

    def __init__(self, by: StoppedBy) -> None:
        super().__init__(by)
        self.by = by


@dataclass
class Search:
    """Finds a configuration worth confirming.

    Attributes:
        deadline: Monotonic time at which the search must leave the rest to the confirmation.
        max_trials: Trials at most, the baseline included.
        known: Scores of configurations measured in an earlier part of a resumed study, by key.
        priorities: Share of the step (0 to 1) that a knob could take away, by the findings that name it.
        next_number: The next trial's number.
    """

    arena: Arena
    space: Space
    profile: Profile
    study: "optuna.Study"
    recorder: Recorder
    deadline: float
    max_trials: int | None = None
    known: Mapping[str, float] = field(default_factory=dict)
    priorities: Mapping[str, float] = field(default_factory=dict)
    next_number: int = 1
    compile_s: float | None = None
    clock: Callable[[], float] = time.monotonic
    incumbent: Config = field(init=False)
    score: float = 0.0
    stopped_by: StoppedBy = "converged"
    not_tried: list[NotTried] = field(default_factory=list)
    _shared: tuple[Config, Session] | None = None
    _seen: dict[str, float] = field(default_factory=dict)
    _failed_in_a_row: int = 0
    _failed: int = 0
    _too_much: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.incumbent = dict(self.space.present)
        self._seen = {self.space.key(self.incumbent): 0.0, **self.known}

    def run(self, session: Session | None) -> Config:
        """Search until converged or out of budget; the incumbent is what to confirm.

        Args:
            session: The baseline's process, still running, for live knobs; ended here.
        """
        if session is not None:
            self._shared = (dict(self.space.present), session)
        try:
            for name in self._order():
                self._screen(name)
            if any(self.incumbent[name] != self.space.present[name] for name in self.space.choices):
                self._screen_again()
            self._refine()
        except BudgetSpent as spent:
            self.stopped_by = spent.by
        finally:
            self.close()
        return self.incumbent

    def close(self) -> None:
        """End the shared process; what it leaves says which files and connections the program used."""
        if self._shared is None:
            return
        session, self._shared = self._shared[1], None
        try:
            if session.alive:
                session.stop()
        except (TrialFailed, SessionEnded):
            session.kill()

    def _order(self) -> list[str]:
        """What findings name first, by ceiling over what a trial costs; then live knobs; then the rest.

        Within those by the share of the step that a knob can act on.
        """
        phases = self.profile.phases

        def cost(name: str) -> tuple[float, int, float, str]:
            knob = self.arena.knobs[name]
            share = 1.0 if phases is None or not knob.acts_on else phases.share(*knob.acts_on)
            group = 0 if knob.live else 2 if knob.loading else 1
            first = group if share < 0.5 or group != 2 else -1
            price = 1.0 if knob.live else LOADING_PRICE if knob.loading else RESTART_PRICE
            return -self.priorities.get(name, 0.0) / price, first, -share, name

        return sorted(self.space.choices, key=cost)

    def _screen(self, name: str) -> None:
        """Race every value of one knob against the incumbent; the best of them becomes the incumbent."""
        start = dict(self.incumbent)
        best, worse_in_a_row = (self.score, start), 0
        try:
            for value in self._values(name, start):
                config = self.space.complete({**start, name: value})
                score = self._measure(config, "screen")
                if score is None:
                    continue
                worse_in_a_row = 0 if score > best[0] + WORTH else worse_in_a_row + 1
                if worse_in_a_row == 0:
                    best = (score, config)
                elif isinstance(value, int) and best[1] != start and worse_in_a_row == PAST_THE_PEAK:
                    break
        finally:  # the budget may end in between; what was found before counts
            self.score, self.incumbent = best

    def _values(self, name: str, start: Config) -> Iterator[Value]:
        for value in self.space.choices[name]:
            if value == start[name]:
                continue
            if not self._hopeless(name, value):
                yield value

    def _hopeless(self, name: str, value: Value) -> bool:
        return isinstance(value, int) and name in self._too_much and value >= self._too_much[name]

    def _screen_again(self) -> None:
        """Knobs that interact are tried once more at the incumbent: a gain may need the others."""
        for name in INTERACTING:
            if name in self.space.choices and self.incumbent[name] == self.space.present[name]:
                self._screen(name)

    def _refine(self) -> None:
        """Joint proposals of Optuna's sampler, until several in a row change nothing."""
        fruitless = 0
        while fruitless < FRUITLESS and self.space.size > len(self._seen):
            trial = self.study.ask(self._distributions())
            config = self.space.complete(dict(trial.params))
            key = self.space.key(config)
            if key in self._seen:
                self.study.tell(trial, self._seen[key])
                fruitless += 1
                continue
            if self.space.check(config) is not None or any(map(self._hopeless, config, config.values())):
                self.study.tell(trial, state=_state("PRUNED"))
                fruitless += 1
                continue
            score = self._measure(config, "search", trial)
            if score is not None and score > self.score + WORTH:
                self.score, self.incumbent, fruitless = score, config, 0
            else:
                fruitless += 1

    def _distributions(self) -> "dict[str, optuna.distributions.BaseDistribution]":
        from optuna.distributions import CategoricalDistribution

        return {name: CategoricalDistribution(choices) for name, choices in self.space.choices.items()}

    def _measure(
        self, config: Config, stage: Stage, asked: "optuna.trial.Trial | None" = None
    ) -> float | None:
        """Measure one configuration against the incumbent; its score, or ``None`` when it failed."""
        key = self.space.key(config)
        if asked is None:
            reason = self.space.check(config)
            if reason is not None:
                self._drop(config, reason)
                return None
            if key in self._seen:
                return self._seen[key]
        self._afford()
        number, self.next_number = self.next_number, self.next_number + 1
        record = TrialRecord(number, config, stage)
        self.arena.log = None
        self.recorder.begin(record, key, self.score)
        if asked is None:
            self.study.enqueue_trial({name: config[name] for name in self.space.choices})
            asked = self.study.ask(self._distributions())
        try:
            estimate = self._race(config, record)
            record.log = self.arena.log
        except TrialFailed as failed:
            record.log = self.arena.log
            self._fail(record, key, failed.failure, asked)
            return None
        if record.refused:
            self.study.tell(asked, state=_state("PRUNED"))
            self._refuse(record)
            return None
        record.against_baseline = estimate.shifted(self.score)
        score = record.against_baseline.estimate
        self._seen[key] = score
        self._failed_in_a_row = 0
        self.recorder.record(record, key, asked=asked.number, value=score)
        self.study.tell(asked, score)
        return score

    def _race(self, config: Config, record: TrialRecord) -> Estimate:
        how = self.arena.how(self.incumbent, config)
        if how == LIVE:
            record.process = "shared"
            return self._race_live(config, record)
        instances: list[list[float]] = []
        for index in range(DUEL_LOOKS):
            duel = self.arena.duel(
                self.incumbent,
                config,
                how=how,
                quads=DUEL_QUADS,
                swapped=index % 2 == 1,
                number=record.number,
                deadline=self.deadline,
                reuse=True,
            )
            instances.append(duel.log_ratios)
            record.slots += duel.second
            record.outcome, record.startup_s = duel.second_outcome, duel.startup_s
            record.applied = duel.second_message.get("applied", [])
            record.refused = duel.second_message.get("refused", {})
            ambiguous = WORTH < median(duel.log_ratios) < CLEAR
            if record.refused or not ambiguous or self.clock() > self.deadline:
                break
        _check_outcome(record.outcome)
        if len(instances) > 1:
            return between(instances, SCREEN_LEVEL)
        return within(instances[0], SCREEN_LEVEL) if len(instances[0]) > 1 else self._lone(instances[0][0])

    def _lone(self, log_ratio: float) -> Estimate:
        return single(log_ratio, self.arena.sigma, SCREEN_LEVEL)

    def _race_live(self, config: Config, record: TrialRecord) -> Estimate:
        ratios: list[float] = []
        estimate: Estimate | None = None
        for quads in LIVE_LOOKS:
            more, slots, message = self._live_quads(config, quads - len(ratios))
            ratios += more
            record.slots += slots
            record.applied, record.refused = message["applied"], message["refused"]
            if ratios[0] < HOPELESS:
                break
            if len(ratios) >= 2:
                estimate = within(ratios, SCREEN_LEVEL)
                if record.refused or estimate.high < WORTH or estimate.low > WORTH:
                    break
            if self.clock() > self.deadline:
                break
        return estimate or self._lone(ratios[0])

    def _live_quads(self, config: Config, quads: int) -> tuple[list[float], list[Slot], dict[str, Any]]:
        """Quads in the shared process; a program that came to its end is started again once."""
        for attempt in (0, 1):
            session = self._session()
            try:
                ratios, (_, slots), (_, message) = self.arena.quads(
                    (session, session), (self.incumbent, config), quads, self.deadline
                )
            except SessionEnded as ended:
                if attempt:
                    raise TrialFailed(
                        Failure("user_error", "the program ended before one comparison")
                    ) from ended
            else:
                return ratios, slots, message
        raise AssertionError("the second attempt returns or raises")

    def _session(self) -> Session:
        """A running process whose settings are the incumbent's, but for live knobs."""
        needed = self._settled_part(self.incumbent)
        if self._shared is not None:
            config, session = self._shared
            if session.alive and self._settled_part(config) == needed:
                return session
            session.kill()
        session = self.arena.start(self.incumbent, 0)
        self._shared = (dict(self.incumbent), session)
        session.first_step()
        self.arena.warm_up(session)
        return session

    def _settled_part(self, config: Mapping[str, Value]) -> Config:
        return {name: value for name, value in config.items() if not self.arena.knobs[name].live}

    def _afford(self) -> None:
        if self.clock() > self.deadline:
            raise BudgetSpent("budget")
        if self.max_trials is not None and self.next_number >= self.max_trials:
            raise BudgetSpent("trials")

    def _fail(self, record: TrialRecord, key: str, failure: Failure, asked: "optuna.trial.Trial") -> None:
        record.state, record.cause, record.message = "failed", failure.cause, failure.message
        self.recorder.record(record, key, asked=asked.number)
        self.study.tell(asked, state=_state("FAIL"))
        self._learn(record, failure)
        self._failed += 1
        self._failed_in_a_row += 1 if failure.cause in USER_CAUSES else -self._failed_in_a_row
        tried = max(1, self.next_number - 1)
        if self._failed_in_a_row >= FAILURES_IN_A_ROW or (tried >= 10 and self._failed > tried / 2):
            raise BudgetSpent("failures")

    def _learn(self, record: TrialRecord, failure: Failure) -> None:
        """Running out of memory is monotone: larger values of what was raised fail too."""
        if failure.cause not in RESOURCE_CAUSES:
            return
        for name, value in record.config.items():
            present = self.space.present[name]
            if isinstance(value, int) and isinstance(present, int) and value > present:
                self._too_much[name] = min(value, self._too_much.get(name, value))

    def _refuse(self, record: TrialRecord) -> None:
        """A refusal in the process counts neither as a trial nor as a failure."""
        self.next_number -= 1
        for name, reason in record.refused.items():
            self.not_tried.append(NotTried(name, record.config[name], reason))
        self._seen[self.space.key(record.config)] = float("-inf")

    def _drop(self, config: Config, reason: str) -> None:
        for name, value in config.items():
            if value != self.incumbent[name]:
                entry = NotTried(name, value, reason)
                if entry not in self.not_tried:
                    self.not_tried.append(entry)


def _check_outcome(outcome: Mapping[str, Any] | None) -> None:
    """Reject results that must not be ranked: losses that are not finite, compilation that gave up."""
    if outcome is None:
        return
    if any(value in ("nan", "inf", "-inf") for value in outcome["losses"]):
        raise TrialFailed(Failure("non_finite", "a loss was NaN or infinite"))
    compiled = outcome["compile"]
    if compiled["failures"]:
        raise TrialFailed(Failure("compile_fell_back", compiled["failures"][0]))


def _state(name: str) -> "optuna.trial.TrialState":
    import optuna

    return optuna.trial.TrialState[name]
