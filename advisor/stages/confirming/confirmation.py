"""From a nominee to a verdict: reduced to what matters, its numbers checked, confirmed on fresh processes."""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property

from advisor.result import wording
from advisor.stages.batch_size import Batches
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming import clock_ratios, unconfirmed
from advisor.stages.confirming.compiling import Compiling
from advisor.stages.confirming.confirmation_costs import ConfirmationCosts, suggested_budget
from advisor.stages.confirming.fresh_processes import FreshPairs, FreshProcesses
from advisor.stages.confirming.judged_numbers import judged_numbers
from advisor.stages.confirming.lasting import Lasting
from advisor.stages.confirming.learning_elsewhere import LearningElsewhere
from advisor.stages.confirming.longer_run import limited_by, usual_steps
from advisor.stages.confirming.outcome import Outcome
from advisor.stages.confirming.pair_numerics import Drifted, PairNumerics
from advisor.stages.confirming.reducing import Reducing
from advisor.stages.confirming.request_tails import RequestTails
from advisor.stages.trials import TrialLog
from advisor.tuners.comparing.duel import Duel
from advisor.tuners.comparing.looks import MIN_INSTANCES
from advisor.tuners.comparing.measure import moderated
from advisor.tuners.launching.session import Interrupted
from advisor.tuners.search.known_gains import KnownGains
from advisor.tuners.search.outcome_check import check_outcome
from advisor.tuners.search.record import TrialRecord
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space
from advisor.tuners.supervision.failures import Failure, OutOfTime, TrialFailed

NOTHING_BETTER = "nothing better was found than what was confirmed before"
NOT_LONGER = "interrupted before it was run for longer, where memory that only grows shows itself"
ENOUGH = 2  # other benches, that measure pairs by themselves while this one runs the winner longer


@dataclass
class Confirmation:
    """Decides about one nominee within what is left of the budget.

    Attributes:
        trials: Keeps the processes of this confirmation as each ends, and has those of earlier ones.
        batches: Knows what a sample is worth beside another batch; added to every comparison.
        next_number: The next trial's number.
        gain: Of the nominee by the search, a log ratio: its steps take so much less.
        known: Gains of single changes that the search saw clearly.
        elsewhere: Has another node run what numbers are judged by, where there is one.
        stands: What was confirmed before, if anything was.
    """

    bench: MeasuredBench
    space: Space
    trials: TrialLog
    batches: Batches
    next_number: int
    gain: float = 0.0
    known: KnownGains | None = None
    elsewhere: LearningElsewhere | None = None
    stands: Configuration | None = None

    @cached_property
    def _compiling(self) -> Compiling:
        return Compiling(self.bench, self.space, self.trials)

    @cached_property
    def _lasting(self) -> Lasting:
        return Lasting(self.bench.arena, lambda peak: self.bench.memory_problem((peak,)) is not None)

    def decide(self, nominee: Configuration, *, reduced: bool = False) -> Outcome:
        """Reduce, check and confirm.

        Args:
            nominee: What the search would recommend; may be the baseline itself.
            reduced: It was reduced before, in an earlier part of the study.
        """
        present = self.space.present
        outcome = Outcome(present)
        if not nominee.changed(present):
            outcome.reason = "no change was worth confirming"
            return outcome
        if self.elsewhere is not None:
            self.elsewhere.begin(nominee)
        try:
            if reduced:
                winner = nominee
                outcome.contributions = dict(self.trials.measured.contributions.get(nominee, {}))
            else:
                winner = self._reducing(nominee).reduced(outcome)
            if not winner.changed(present):
                outcome.reason = "taken out one by one, no change was worth more than can be told from noise"
                return outcome
            if winner == self.stands and winner != nominee:
                outcome.reason = NOTHING_BETTER
                return outcome
            winner = self._compiling.paid_back(winner, outcome)
            self._check_and_confirm(winner, outcome)
        except OutOfTime:
            outcome.reason = self._no_room(nominee)
        except TrialFailed as failed:
            outcome.reason = f"the nominee failed when it was started afresh: {failed.failure.message}"
        finally:
            if outcome.verdict != "change":
                self.bench.arena.held.drop()
        return outcome

    def _costs(self, config: Configuration) -> ConfirmationCosts:
        compile_s = self._compiling.first_s(config)
        speed = math.exp(max(0.0, self.gain))
        return ConfirmationCosts(self.bench, self.space.present, config, speed, compile_s or 0.0)

    def _no_room(self, config: Configuration) -> str:
        enough = suggested_budget(self.bench.settings.budget_s + self._costs(config).least_s())
        return unconfirmed.no_room(self._described(config), self.gain, enough)

    def _there(self, config: Configuration) -> int:
        """Pairs of this configuration that earlier parts of the study measured."""
        return len(self.trials.measured.instances.get(config, ()))

    def _leading(self, config: Configuration) -> list[str]:
        """Without those that only follow another change."""
        changed = config.changed(self.space.present)
        return [name for name in changed if self.bench.arena.knobs[name].follows not in changed]

    def ask_ahead(self, nominee: Configuration) -> list[int]:
        """Have idle benches begin with what ``decide`` asks if all changes are needed; as ``Crew.ahead``."""
        if not nominee.changed(self.space.present):
            return []
        if self.elsewhere is not None:
            self.elsewhere.begin(nominee)
        keys = self._reducing(nominee).ask_ahead()
        numbers = PairNumerics.of(self.bench, self.space, nominee)
        pairs, free = self._asked_pairs(nominee, numbers)
        if pairs.waves is not None and free > 0:
            keys += pairs.waves.ask_ahead(self._there(nominee), free)
        return keys

    def _reducing(self, nominee: Configuration) -> Reducing:
        end = self.bench.clock() + self.bench.room_s - self._costs(nominee).least_s()
        gains = self.known or KnownGains(self.bench.arena.knobs, self.space.present)
        return Reducing(
            self.bench, self.space, nominee, self._leading(nominee), gains, self.next_number, end,
            self._worth, math.exp(max(0.0, self.gain)),
        )  # fmt: skip

    def _gate(self, winner: Configuration, outcome: Outcome, apart: Sequence[str] = ()) -> Configuration:
        """Leave out changes whose numbers drift, of those ``apart`` if there are any; the rest goes on."""
        costs = self._costs(winner)
        later_s = costs.after_numerics_s(self._there(winner)) + costs.fresh_run_s
        latest = self.bench.clock() + self.bench.room_s - later_s
        there = self.elsewhere if self.elsewhere is not None and self.elsewhere.expects(winner) else None
        found, outcome.reference = judged_numbers(self.bench, self.space, winner, latest, there, apart)
        outcome.numerics = found.verdicts
        outcome.winner_peaks = found.peaks
        outcome.rejected.update(found.rejected)
        if self._compiling.adds(found.config):
            outcome.compile_s = found.compile_s
        if not found.config.changed(self.space.present):
            what = "its answers" if outcome.reference is None else "the numbers drift"
            outcome.reason = f"{self._described(winner)}: {what}: {found.reason}"
        return found.config

    def _check_and_confirm(self, winner: Configuration, outcome: Outcome, *, again: bool = True) -> None:
        """Look at the numbers, then confirm; where a change declines, once more without it."""
        present = self.space.present
        if not winner.changed(present):
            return
        if self._costs(winner).least_s(self._there(winner)) > self.bench.room_s:
            outcome.reason = self._no_room(winner)
            return
        pairs = None if self._there(winner) else PairNumerics.of(self.bench, self.space, winner)
        begun = self._begun(winner, pairs)
        by_pairs = pairs is not None and not pairs.kind.apart
        if by_pairs or self._learns_elsewhere(winner):
            self.bench.baseline.end()
            if begun is not None:
                self._run_ahead(winner, begun)
        if not by_pairs:
            begun = begun or self._begun_here(winner, pairs)
            apart, checked = () if pairs is None else pairs.kind.apart, winner
            with ExitStack() as unwanted:
                if begun is not None:
                    unwanted.callback(begun.drop)
                winner = self._gate(winner, outcome, apart)
                if winner == checked:
                    unwanted.pop_all()
            if winner != checked:
                pairs, begun = pairs and PairNumerics.of(self.bench, self.space, winner), None
            if not winner.changed(present):
                return
            if begun is not None and begun.waves is not None and not self._lasting.ran(winner):
                self._run_ahead(winner, begun)
        try:
            self._confirm(winner, outcome, pairs, begun)
        except Drifted as drifted:
            if drifted.left.changed(present):
                outcome.forget()
                self._confirm(drifted.left, outcome)
        except TrialFailed as failed:
            declined = [name for name in winner.changed(present) if name in outcome.rejected]
            if not declined:
                raise
            left = self._without(winner, declined, outcome)
            outcome.reason = failed.failure.message
            if again:
                self._check_and_confirm(left, outcome, again=False)

    def _without(self, winner: Configuration, declined: Sequence[str], outcome: Outcome) -> Configuration:
        """The winner without what declined; what was measured with it holds for neither."""
        self.bench.progress.say(f"leaving out {', '.join(declined)}, which declined late")
        outcome.forget()
        for name in declined:
            outcome.contributions.pop(name, None)
            winner = self.space.without(winner, name)
        return self.space.complete(winner)

    def _begun(self, winner: Configuration, numbers: PairNumerics | None) -> FreshPairs | None:
        """Pairs that other benches measure while this one looks at the numbers, or runs the winner longer."""
        pairs, free = self._asked_pairs(winner, numbers)
        if pairs.waves is None or free < (1 if numbers is None else ENOUGH):
            return None
        pairs.waves.begin(self._there(winner), free)
        return pairs

    def _begun_here(self, winner: Configuration, numbers: PairNumerics | None) -> FreshPairs | None:
        """Pairs whose first processes start while numbers are compared in the one that was searched in."""
        pairs, _ = self._asked_pairs(winner, numbers)
        return pairs if pairs.begin(self._there(winner)) else None

    def _asked_pairs(self, winner: Configuration, numbers: PairNumerics | None) -> tuple[FreshPairs, int]:
        """Pairs of a winner after those that there are, and how many other benches are free for them."""
        costs, how = self._costs(winner), self.bench.arena.how(self.space.present, winner, fresh=True)
        beyond_s = self.bench.end - self.bench.deadline
        processes = FreshProcesses(self.bench, beyond_s, expected=costs.pairs_s, after_s=costs.longer_s)
        told, number = f"confirming {self._described(winner)}: process", self.next_number
        pairs = FreshPairs(processes, self.space.present, winner, how, costs.quads, told, number, hold=True)
        pairs.where += self.trials.measured.where.get(winner, ())
        if numbers is not None:
            pairs.options = numbers.options
        if pairs.waves is not None:
            pairs.waves.enough = costs.enough(self.gain)
        return pairs, self.bench.crew.size - 1 - (numbers is None and self._learns_elsewhere(winner))

    def _learns_elsewhere(self, winner: Configuration) -> bool:
        return self.elsewhere is not None and self.elsewhere.expects(winner)

    def _run_ahead(self, winner: Configuration, begun: FreshPairs) -> None:
        """Run the winner longer here while others measure it."""
        self.bench.progress.say(f"running {self._described(winner)} for longer")
        steps = usual_steps(self.bench.arena, winner, begun.how, begun.quads)
        self._lasting.run_ahead(winner, steps, self.next_number, begun.how)

    def _confirm(
        self,
        winner: Configuration,
        outcome: Outcome,
        numbers: PairNumerics | None = None,
        begun: FreshPairs | None = None,
    ) -> None:
        if self._compiling.adds(winner):
            outcome.compile_s = (
                max(outcome.compile_s or 0.0, self.trials.first_compile_s(winner) or 0.0) or None
            )
        limit = self.bench.memory_problem(outcome.winner_peaks)
        if limit is not None:
            outcome.reason = limit
            if begun is not None:
                begun.drop()
            return
        pairs = begun or self._asked_pairs(winner, numbers)[0]
        number, self.next_number = self.next_number, self.next_number + 1
        record = TrialRecord(number, winner, "confirm")
        self.trials.begin(record, 0.0)
        self.trials.keep_contributions(number, winner, outcome.contributions)
        self.bench.progress.say(f"confirming {self._described(winner)} on fresh processes")
        how, quads, processes = pairs.how, pairs.quads, pairs.processes
        cpu: list[list[float]] = []
        wall: list[list[float]] = []

        outcome.tails = RequestTails.of(self.bench.settings, self.bench.profile, winner)

        def kept(duel: Duel) -> list[float]:
            self._keep(record, duel, outcome)
            if outcome.tails is not None:
                outcome.tails.add(duel)
            worth = self._worth(winner)
            cpu.append([ratio + worth for ratio in clock_ratios.cpu_log_ratios(duel)])
            wall.append(clock_ratios.wall_log_ratios(duel))
            ratios = [ratio + worth for ratio in duel.log_ratios]
            self.trials.keep_instance(number, winner, ratios, pairs.where[-1] if pairs.where else None)
            if numbers is not None and numbers.add(duel, self.bench.arena.held.of(winner)):
                numbers.look(winner, outcome, self.bench.progress, lambda: self._gate(winner, outcome))
                if (limit := self.bench.memory_problem(outcome.winner_peaks)) is not None:
                    raise TrialFailed(Failure("oom_device" if self.bench.on_device else "oom_host", limit))
            return ratios

        settings = self.bench.settings
        gain, level, planned = settings.min_gain, settings.confidence, settings.steps_planned
        earlier = list(self.trials.measured.instances.get(winner, ()))
        try:
            decision, _ = pairs.confirm(
                kept, min_gain=gain, earlier=earlier, cut_off=record.cut_off,
                wanting=lambda: outcome.tails is not None and outcome.tails.may_be_shown(level),
            )  # fmt: skip
        except TrialFailed as failed:
            record.state, record.cause = "failed", failed.failure.cause
            record.message, record.log = failed.failure.message, self.bench.arena.log
            self.trials.record(record)
            raise
        outcome.decision = decision
        cpu_counts = clock_ratios.cpu_time_counts(self.bench, self.space.present, winner)
        if len(cpu) >= MIN_INSTANCES and all(cpu) and cpu_counts:
            outcome.cpu = moderated(cpu, level, how)
        if len(wall) >= MIN_INSTANCES and self._for_memory:
            outcome.time = moderated(wall, level, how)
        record.against_baseline = unconfirmed.measured(decision)
        if record.against_baseline is None:
            record.state, record.message = "pruned", unconfirmed.why_never(processes.disturbed)
        gained = outcome.time if self._for_memory else record.against_baseline
        outcome.step_ratio = None if gained is None else math.exp(gained.estimate)
        if record.against_baseline is not None and len(leading := self._leading(winner)) == 1:
            outcome.contributions[leading[0]] = decision.estimate
        if decision.verdict != "confirmed":
            objection = unconfirmed.why(self._described(winner), decision, gain, processes.disturbed)
        elif self._compiling.unpaid(winner, outcome):
            objection = f"{wording.UNPAID} within {self._compiling.planned_steps} steps"
        elif outcome.tails is not None and (slower := outcome.tails.objection(level)):
            objection = f"{self._described(winner)}: {slower}"
        else:
            objection = ""
            self._run_longer(record, outcome, usual_steps(self.bench.arena, winner, how, quads), how)
        self.trials.record(record)
        if record.cause == "not_applied":
            raise TrialFailed(Failure("not_applied", record.message))
        if objection or record.state == "failed":
            outcome.reason = objection or record.message
            return
        outcome.verdict, outcome.config = "change", winner
        limited = limited_by(winner, outcome.longer, self.bench.baseline.profile, planned)
        outcome.reason = NOT_LONGER if outcome.interrupted else limited

    def _run_longer(self, record: TrialRecord, outcome: Outcome, steps: int, how: str) -> None:
        """Tell that it is confirmed. It must also last, else that is taken back; the record says why."""
        config = record.config
        record.confirmed_s, record.confirmed_launches = self.bench.spent_s, self.bench.launcher.launches
        self.bench.progress.say(f"confirmed: {outcome.told(config, self.space.present)}")
        self._see_it_last(record, outcome, steps, how)
        if record.state == "failed":
            record.confirmed_s = record.confirmed_launches = None
            self.bench.progress.say(f"taken back: {record.message}")

    def _see_it_last(self, record: TrialRecord, outcome: Outcome, steps: int, how: str) -> None:
        config, described = record.config, f"{self._described(record.config)}, run for longer,"
        self.bench.progress.say(f"running {self._described(config)} for longer")
        try:
            outcome.longer = longer = self._lasting.run(config, steps, record.number, how)
            outcome.refuse_declined(longer.refused, config.changed(self.space.present))
        except TrialFailed as failed:
            record.state, record.cause = "failed", failed.failure.cause
            record.message = f"{described} failed: {failed.failure.message}"
            record.log = self.bench.arena.log
            return
        except Interrupted:
            outcome.interrupted = True
            self.bench.progress.say(NOT_LONGER)
            return
        problem = self.bench.memory_problem((longer.peak_bytes,))
        if problem is not None:
            record.state, record.cause = "failed", "oom_device" if self.bench.on_device else "oom_host"
            record.message = f"{described} does not fit after {longer.steps} steps: {problem}"

    def _keep(self, record: TrialRecord, duel: Duel, outcome: Outcome) -> None:
        record.slots += duel.second
        outcome.unchanged_ms.append(1e3 * clock_ratios.steady_step_s(duel.first, duel.first_message))
        record.startup_s = duel.startup_s
        record.applied = list(duel.second_message.applied)
        changed = record.config.changed(self.space.present)
        outcome.refuse_declined(duel.second_message.refused, changed)
        if duel.second_outcome is not None:
            record.outcome = duel.second_outcome
            check_outcome(record)
            adds = self._compiling.adds(record.config)
            seconds = duel.second_outcome.compile.seconds if adds else 0.0
            if outcome.compile_s and seconds:  # the gate's run has filled the cache
                outcome.compile_warm_s = min(outcome.compile_warm_s or seconds, seconds)
            outcome.compile_s = max(outcome.compile_s or 0.0, seconds) or None

    def _worth(self, config: Configuration) -> float:
        return self.batches.sure_worth(config, self.space.present)

    @property
    def _for_memory(self) -> bool:
        return self.bench.settings.objective == "memory"

    def _described(self, config: Configuration) -> str:
        changed = config.changed(self.space.present)
        return ", ".join(f"{name}={value}" for name, value in changed.items())
