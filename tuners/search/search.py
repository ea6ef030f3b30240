"""The stages of a search: one knob at a time against the incumbent, then jointly by Optuna.

Results only nominate: the confirmation on fresh processes decides. All trials go through one Optuna
study by ask and tell, so that its sampler starts the joint stage from everything that was measured.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from advisor.profiles.facts.profile import Profile
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.knob import Semantics, Value
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.search.asking import Asking, Proposal
from advisor.tuners.search.infeasible import TooMuch
from advisor.tuners.search.measured import Measured
from advisor.tuners.search.ordering import INTERACTING, PAIRS, by_expected_gain, telling
from advisor.tuners.search.race import WORTH, Race
from advisor.tuners.search.record import Recorder, Stage, TrialRecord
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import NotTried, Space
from advisor.tuners.supervision.failures import USER_CAUSES, Cause, TrialFailed

if TYPE_CHECKING:
    import optuna

PAST_THE_PEAK = 2  # numbers in a row that give no more than the best so far
FINALISTS = 4
FINALS_SHARE = 0.1  # of the time of a search, kept for them to meet each other
NEAR = 0.05  # log ratio below the best within which a configuration takes part in the last race
FRUITLESS = 6  # joint proposals in a row that change nothing: converged
FAILURES_IN_A_ROW = 5

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
    compile_s: float | None = None
    worth: Callable[[Configuration], float] = lambda config: 0.0
    allow_training: bool = False
    limit_bytes: int | None = None
    clock: Callable[[], float] = time.monotonic
    incumbent: Configuration = field(init=False)
    score: float = 0.0
    stopped_by: StoppedBy = "converged"
    not_tried: list[NotTried] = field(default_factory=list)
    _race: Race = field(init=False)
    _asking: Asking = field(init=False)
    _seen: dict[Configuration, float] = field(default_factory=dict)
    _nominees: set[Configuration] = field(default_factory=set)
    _before: list[tuple[float, Configuration]] = field(default_factory=list)
    _lost: list[NotTried] = field(default_factory=list)
    _failed_in_a_row: int = 0
    _failed: set[Configuration] = field(default_factory=set)
    _too_much: TooMuch = field(init=False)
    _for_finals_s: float = 0.0
    _apart: bool = False

    def __post_init__(self) -> None:
        self.incumbent = self.space.present
        self._race = Race(self.arena, self.clock, self.limit_bytes, self.space.present)
        self._too_much = TooMuch(self.space.present)
        self._asking = Asking(self.study, self.space)
        self._seen = {self.space.complete(self.incumbent): 0.0}

    def run(self, session: Running | None) -> Configuration:
        """Search until converged or out of budget; the incumbent is what to confirm.

        Args:
            session: The baseline's process, still running, for live knobs; ended here.
        """
        if session is not None:
            self._race.adopt(self.space.present, session)
        self._for_finals_s = FINALS_SHARE * max(0.0, self.deadline - self.clock())
        explored = -1
        try:
            while explored < len(self._lost):  # what was found beside a lost setting is looked for without it
                explored = len(self._lost)
                self._explore()
        except BudgetSpent as spent:
            self.stopped_by = spent.by
        self._for_finals_s = 0.0
        self._take_the_rest()
        try:
            self._race_the_best()
        except BudgetSpent as spent:
            self.stopped_by = spent.by if self.stopped_by == "converged" else self.stopped_by
        finally:
            self._race.close()
        return self.incumbent

    def screen_at(self, config: Configuration, score: float, deadline: float) -> Configuration:
        """Try once more, from another configuration, the knobs that interact; the best is what to confirm.

        Its trials lie outside of the space that is searched: the study's sampler learns nothing from them.

        Args:
            config: Such as the incumbent with a larger batch.
            score: Of it, as of all that was measured.
            deadline: Of the clock; what has no time left is not tried.
        """
        config = self.space.complete(config)
        self._adopt(score, config)
        self.deadline, self._apart = deadline, True
        self._keep(config, score)
        try:
            self._screen_again()
        except BudgetSpent:
            pass  # what was found before counts
        finally:
            self._race.close()
        return self.incumbent

    def _explore(self) -> None:
        order = by_expected_gain(self.space.choices, self.arena.knobs, self.profile, self.priorities)
        self._start_from_findings(order)
        for name in order:
            self._screen(name)
        if self.incumbent.changed(self.space.present).keys() & self.space.choices.keys():
            self._screen_again()
        self._try_pairs()
        self._refine()

    def _start_from_findings(self, order: list[str]) -> None:
        """Try together what several findings ask for: one trial, where live knobs make it cheap."""
        asked = [name for name in order if self.priorities.get(name) and self.arena.knobs[name].live]
        config = self.incumbent
        for name in asked:
            value = next(iter(self._values(name, self.incumbent)), None)
            if value is not None:
                config = self.space.complete(config.with_({name: value}))
        if len(config.changed(self.incumbent)) > 1 and self.space.check(config) is None:
            self._try(config)

    def _race_the_best(self) -> None:
        """The best of many noisy scores owes part of it to luck: those near it meet it on fresh data."""
        if self.incumbent == self.space.present:
            return
        near = sorted(
            (config for config in self._nominees if self.score - NEAR < self._seen[config]),
            key=lambda config: (self._seen[config], config.key),
        )
        for config in near[::-1][:FINALISTS]:
            if config != self.incumbent:
                self._try(config, again=True)

    def _screen(self, name: str) -> None:
        """Race every value of one knob against the incumbent; the best of them becomes the incumbent."""
        start, worse_in_a_row = self.incumbent, 0
        best: tuple[float, Configuration] | None = None
        try:
            for value in self._values(name, start):
                config = self.space.complete(start.with_({name: value}))
                score = self._measure(config, "screen")
                if self.incumbent != start:  # part of it declined: none of this counts
                    best = None
                    return
                if score is None:
                    continue
                most = self.score if best is None else best[0]
                worse_in_a_row = 0 if score > most + WORTH else worse_in_a_row + 1
                if worse_in_a_row == 0:
                    best = (score, config)
                elif isinstance(value, int) and best is not None and worse_in_a_row == PAST_THE_PEAK:
                    break
        finally:  # the budget may end in between; what was found before counts
            if best is not None:
                self._adopt(*best)

    def _try_pairs(self) -> None:
        """Known pairs: both at once where neither gained alone, one beside the other where one did."""
        for pair in PAIRS:
            if not all(name in self.space.choices for name in pair):
                continue
            kept = [name for name in pair if self.incumbent[name] == self.space.present[name]]
            if len(kept) == 1 and kept[0] not in INTERACTING:
                self._screen(kept[0])
            if len(kept) == 2:
                self._try_together(pair)

    def _try_together(self, names: Sequence[str]) -> None:
        values = {name: list(self._values(name, self.incumbent)) for name in names}
        if not all(values.values()):
            return
        found = {name: telling(of, self.incumbent[name]) for name, of in values.items()}
        config = self.space.complete(self.incumbent.with_(found))
        if any(config[name] != value for name, value in found.items()) or not self._is_new(config):
            return
        self._try(config)

    def _try(self, config: Configuration, proposal: Proposal | None = None, *, again: bool = False) -> bool:
        """Race a configuration against the incumbent; whether it took its place."""
        score = self._measure(config, "search", proposal, again=again)
        gained = score is not None and score > self.score + WORTH
        if score is not None and gained:
            self._adopt(score, config)
        return gained

    def _adopt(self, score: float, config: Configuration) -> None:
        """Go on from this configuration."""
        self._before.append((self.score, self.incumbent))
        self.score, self.incumbent = score, config

    def _values(self, name: str, start: Configuration) -> Iterator[Value]:
        for value in self.space.choices[name]:
            config = start.with_({name: value})
            if value != start[name] and not self._too_much.holds(config, start) and not self._is_lost(config):
                yield value

    def _screen_again(self) -> None:
        """Knobs that interact are tried once more at the incumbent: a gain may need the others."""
        for name in INTERACTING:
            if name in self.space.choices and self.incumbent[name] == self.space.present[name]:
                self._screen(name)

    def _refine(self) -> None:
        """Joint proposals of Optuna's sampler, until several in a row change nothing."""
        fruitless = 0
        while fruitless < FRUITLESS and self.space.size > len(self._seen):
            proposal = self._asking.propose(self._is_new, self._is_allowed, FRUITLESS - fruitless)
            if proposal is None:
                return
            fruitless += proposal.repeats
            fruitless = 0 if self._try(proposal.config, proposal) else fruitless + 1

    def _is_new(self, config: Configuration) -> bool:
        return config not in self._seen

    def _is_allowed(self, config: Configuration) -> bool:
        if self._is_lost(config) or self._too_much.holds(config, self.incumbent):
            return False
        return self.space.check(config) is None

    def _is_lost(self, config: Configuration) -> bool:
        """Whether something in it declined late."""
        return any(config.get(each.knob) == each.value for each in self._lost)

    def _take_the_rest(self) -> None:
        """What earlier parts measured though the search of now did not come to it counts too."""
        for config, scores in self.measured.scores.items():
            known = config in self._seen or config in self.measured.failures or self._is_lost(config)
            if known or not self._is_of_space(config) or self.space.check(config) is not None:
                continue
            score = self._keep(config, scores[-1])
            if score is not None and score > self.score + WORTH:
                self._adopt(score, config)

    def _is_of_space(self, config: Configuration) -> bool:
        present, choices = self.space.present, self.space.choices
        return config.keys() == present.keys() and all(
            value in choices.get(name, (present[name],)) for name, value in config.items()
        )

    def _measure(
        self,
        config: Configuration,
        stage: Stage,
        proposal: Proposal | None = None,
        *,
        again: bool = False,
    ) -> float | None:
        """Measure one configuration against the incumbent; its score, or ``None`` when it failed.

        Args:
            config: Complete.
            stage: For the record.
            proposal: Where Optuna's sampler proposed this.
            again: Measure it although it was measured before.
        """
        if self._is_lost(config):
            return None
        if proposal is None:
            reason = self.space.check(config)
            if reason is not None:
                self._drop(config, reason)
                return None
            if config in self._seen and not again:
                return self._nominated(config)
        if config in self.measured.failures:
            self._note_failure(config, self.measured.failures[config])
            return None
        score = self.measured.score(config, again=again)
        if score is not None:
            return self._keep(config, score)
        self._afford()
        number, self.next_number = self.next_number, self.next_number + 1
        record = TrialRecord(number, config, stage)
        self.arena.log = None
        self.recorder.begin(record, self.score)
        asked = None if self._apart else self._asking.take(config, proposal)
        try:
            estimate = self._race.run(self.incumbent, config, record, self._until)
            record.log = self.arena.log
        except TrialFailed as failed:
            record.log = self.arena.log
            failure = failed.failure
            record.state, record.cause, record.message = "failed", failure.cause, failure.message
            self.recorder.record(record, asked=asked)
            if asked is not None:
                self._asking.fail(asked)
            if self._race.lost:
                self._fall_back(self._race.lost)
            else:
                self._note_failure(config, failure.cause)
            return None
        if record.refused:
            if asked is not None:
                self._asking.refuse(asked)
            self._refuse(record)
            return None
        record.against_baseline = estimate.shifted(self.score - self.worth(self.incumbent))
        worth = self.worth(config)
        if worth:
            record.efficiency = math.exp(worth)
        score = record.against_baseline.estimate + worth
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
        if not math.isfinite(self._seen[config]) or not self._may_be_nominated(config):
            return None
        self._nominees.add(config)
        return self._seen[config]

    def _may_be_nominated(self, config: Configuration) -> bool:
        """Whether its updates are those of the baseline, or the user allows others; no estimate is either."""
        if self.profile.target_kind == "script" and config.get("ranks", 1) != self.space.present.get(
            "ranks", 1
        ):
            return False
        changed = [self.arena.knobs[name] for name in config.changed(self.space.present)]
        return self.allow_training or not any(
            knob.opt_in and knob.meaning(config) is Semantics.TRAINING for knob in changed
        )

    @property
    def _until(self) -> float:
        found = any(self._seen[config] > WORTH for config in self._nominees)
        return self.deadline - self._for_finals_s if found else max(self.deadline, self.latest)

    def _afford(self) -> None:
        if self.clock() > self._until:
            raise BudgetSpent("budget")
        counted = self.next_number - len(self.measured.interrupted)
        if self.max_trials is not None and counted >= self.max_trials:
            raise BudgetSpent("trials")

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
