"""The whole sequence from target to result: baseline, search, reduction, gate, confirmation.

Calls everything below and knows no screen: what it does is told to a ``Progress``, what it finds is
returned. Only a confirmation on fresh processes can recommend.
"""

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from advisor.advice.advise import advise
from advisor.advice.finding import Finding
from advisor.base.errors import TargetError
from advisor.base.settings import Clock, Progress, Settings
from advisor.base.signals import StopRequests
from advisor.profiles.facts.machine import read_machine
from advisor.profiles.facts.profile import Profile
from advisor.report.artefacts import keep_artefacts
from advisor.report.files import write_report
from advisor.result.document import ResultData
from advisor.rules import RULES
from advisor.stages import assemble
from advisor.stages.all_failed import NO_TIME, refuse_if_all_failed, why_undecided
from advisor.stages.batch_size import Batches
from advisor.stages.bench import Launching, MeasuredBench, failures_told, open_bench, run_unchanged
from advisor.stages.benches import bench_uses, join_crew, open_crew
from advisor.stages.closer_look import look_again, look_again_s, look_closely
from advisor.stages.confirming.confirmation import NOTHING_BETTER
from advisor.stages.confirming.confirmation_costs import ConfirmationCosts
from advisor.stages.confirming.confirmation_plan import reserve_s
from advisor.stages.confirming.outcome import Outcome
from advisor.stages.confirming.standing import open_confirmation, standing
from advisor.stages.decidable import decidable_space
from advisor.stages.deciding import Deciding
from advisor.stages.first_line import first_line, limit_of
from advisor.stages.launching import Caller, open_launcher, side_effects
from advisor.stages.reach import Reach
from advisor.stages.search_plan import how_long, planned_search, why_apart
from advisor.stages.searched import searched_space
from advisor.stages.study import Study
from advisor.stages.trials import TrialLog
from advisor.tuners.benches.engine import Engine
from advisor.tuners.benches.engines import open_engine
from advisor.tuners.comparing.one_window import known_window
from advisor.tuners.launching.launch import StuckProcess
from advisor.tuners.launching.session import Interrupted
from advisor.tuners.search.eligible import is_of_space
from advisor.tuners.search.measuring import StoppedBy
from advisor.tuners.search.search import Search
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import NotTried, Space
from advisor.tuners.supervision.failures import OutOfTime

BESIDE_S, BESIDE_SHARE = 60.0, 0.25  # what follows a verdict may take: that, or a share of what it took


def tune(
    settings: Settings,
    progress: Progress,
    *,
    launching: Launching = open_launcher,
    clock: Clock = time.monotonic,
    engine: Engine | None = None,
) -> ResultData:
    """Find out what to change about a training run, and prove it.

    Args:
        settings: What to run, and the limits.
        progress: Is told what happens.
        launching: Opens the launcher, as ``open_launcher`` does.
        clock: Seconds, monotonic, by which the budget is spent.
        engine: Places benches on other nodes, closed at the end; by default that of ``settings``.

    Returns:
        The result, also written to ``settings.out``; after an interrupt what is known so far.

    Raises:
        TargetError: The target fails although nothing was changed.
        UsageError: Settings that cannot be meant, or a resumed study that is about something else.
        EnvironmentProblem: Storage or machine do not allow it.
        NoValidTrial: Every configuration failed.
    """
    began = clock()
    with StopRequests() as stop, ExitStack() as stack:
        progress.begin(first_line(settings.target, read_machine(), limit_of(settings)))
        caller = Caller(progress, stop)
        study = Study.open(settings, stack, caller.warn)
        settings = study.measured_under(caller.warn)
        opening = open_bench(settings, study.folder, caller, began=began, launching=launching, clock=clock)
        if engine is None and settings.on != "here":
            engine = open_engine(settings.on, study.folder / "benches")
        try:
            with failures_told("tune", "the baseline was measured"):
                opened = stack.enter_context(opening)  # waits for another tuner, who may have all nodes
                opened.launcher.everywhere = True
                crew = stack.enter_context(open_crew(engine, settings, caller, clock))
                bench = run_unchanged(opened, crew, fewer_threads=study.threads is None and engine is None)
        except TargetError as error:
            study.keep_failed_baseline(error)
            raise
        settings = study.decide_threads(bench.settings)
        bench.end_in_time()
        bench.warn_of_the_baseline()
        batches = Batches(settings, progress)
        widest = searched_space(settings, batches, bench.profile, 0.0)
        measured, before = study.join(bench.profile, widest.choices, progress.say), study.result()
        notes = look_closely(bench)
        measured.how = lambda config: bench.arena.how(bench.arena.present, config, fresh=True)
        findings = advise(bench.profile, RULES)
        space = _space(bench, study, batches)
        notes += why_apart(bench, space)
        progress.say(how_long(bench, space))
        reach = Reach.now(bench, space.present)
        if space.choices:
            progress.say(reach.said)
        trials = TrialLog(
            progress, clock, bench.deadline, study.store, study.name, space.present, measured,
            sampled=bench.baseline.sampled,
        )  # fmt: skip
        stack.enter_context(study.guarded())
        search = planned_search(bench, space, study, trials, batches, findings, reach)
        join_crew(bench, limit_bytes=search.limit_bytes, least=search.least)
        return _Tuning(study, bench, space, trials, batches, search, findings, notes, before, reach).run()


def _space(bench: MeasuredBench, study: Study, batches: Batches) -> Space:
    # What bounds a gain in time says nothing about one in memory.
    detectable = 0.0 if bench.settings.objective == "memory" else bench.baseline.detectable
    space = searched_space(bench.settings, batches, bench.profile, detectable, study.begun)
    study.keep_space(space.choices)
    return decidable_space(bench, space)


@dataclass
class _Tuning:
    """One call of ``tune`` once it is known what may be tried.

    Attributes:
        before: What earlier parts of the study found.
        after: The recommended setting, looked at closely.
        batch_asked: Larger batches were weighed, once the search had ended.
    """

    study: Study
    bench: MeasuredBench
    space: Space
    trials: TrialLog
    batches: Batches
    search: Search
    findings: list[Finding]
    notes: list[str]
    before: ResultData | None
    reach: Reach
    after: Profile | None = None
    batch_asked: bool = False
    stopped_by: StoppedBy = "converged"
    deciding: Deciding = field(init=False)

    def __post_init__(self) -> None:
        self.batches.trials, self.trials.kept = self.trials.trials, self._save_partial
        self.deciding = Deciding(
            self.bench, self.space, self.trials, self.batches, self.search, self.reach, self._save_partial
        )

    @property
    def outcome(self) -> Outcome:
        """What is recommended so far."""
        return self.deciding.outcome

    def run(self) -> ResultData:
        """Try, confirm, and look again; what is known is assembled at the end, however it ends."""
        self.trials.record(self.bench.baseline.as_record(self.space.present))
        try:
            held = self._held()
            if held is not None:
                self._go_on(held)
            if held is None or (self.outcome.verdict != "change" and self._may_search):
                self._search_and_confirm()
            self._look_beyond()
        except Interrupted:
            self.stopped_by = "interrupted"
            self.trials.interrupted()
        except OutOfTime:
            self.stopped_by = "budget"
        except StuckProcess as stuck:
            self.stopped_by = "failures"
            self.bench.caller.warn(f"{stuck.message}; {stuck.hint}")
            self.trials.interrupted(stuck.message)
        finally:
            self.bench.arena.held.drop()
        return self._finish()

    @property
    def _may_search(self) -> bool:
        return self.bench.clock() < self.search.deadline

    def _held(self) -> Configuration | None:
        """The configuration whose confirmation is open, if it may be tried and weighed now."""
        bench, config = self.bench, open_confirmation(self.trials.measured, self.space, self.bench.settings)
        if config is None:
            return None
        weighed = self.batches.can_weigh(bench.arena, self.space, bench.profile, config, bench.deadline)
        return config if weighed else None

    def _go_on(self, held: Configuration) -> None:
        """Go on with the confirmation that an earlier part of the study left open."""
        self.bench.progress.say("going on with the confirmation that was left open")
        self.deciding.take(self.deciding.confirm(held, reduced=True))
        self.stopped_by = "converged" if self.outcome.verdict == "change" else "budget"

    def _search_and_confirm(self) -> None:
        self.deciding.elsewhere.prepare_early()
        try:
            known = known_window(self.bench.arena, self.bench.baseline.slots)
            nominee = self.search.run(self.bench.baseline.session, known)
        finally:
            self.stopped_by, self.bench.baseline.session = self.search.stopped_by, self.search.running
        nominee = self._with_batch(nominee)
        found = None if self.before is None else self.before.recommendation
        if found is not None and found.verdict == "change" and nominee == found.config:
            self.outcome.reason = NOTHING_BETTER
        else:
            self.deciding.take(self.deciding.decide(nominee))
            self._go_further(nominee)

    def _go_further(self, nominee: Configuration) -> None:
        """While the budget lasts, look for more on top of what was confirmed, or for something else.

        Also after a whole search, where what it found was refused. Each is confirmed against the unchanged
        program, by itself and at the same level: what was confirmed stands unless something better is.
        """
        bench = self.bench
        look_s = look_again_s(bench, starts=True)
        deadline = bench.deadline - self._reserve_s(look_s)
        self.search.begin_by = partial(self.reach.begin_by, after_s=look_s)
        while bench.clock() + bench.baseline.startup_s < deadline:
            best = self.outcome
            if not best.refused and self.search.stopped_by != "budget":
                break
            if not is_of_space(best.config, self.space):  # beside a batch beyond it was searched already
                return
            rejected = None if nominee == best.config else nominee
            self.trials.preface = "time is left: trying what was not reached"
            held = bench.arena.held.take(best.config)
            nominee = self.search.go_on(best.config, best.gain, deadline, rejected, held, best.refused)
            self.trials.preface = ""
            self.stopped_by, bench.baseline.session = self.search.stopped_by, self.search.running
            nominee = self._with_batch(nominee)
            more = self.search.score - best.gain
            if nominee == best.config or more <= math.log1p(bench.settings.min_gain):
                return
            outcome = self.deciding.decide(nominee)
            if outcome.verdict == "change" and outcome.gain > best.gain:
                outcome.remember(best)
                self.deciding.take(outcome)
        if not self.batch_asked:  # no time is left for it either, which is told
            self.search.paused = False
            self._with_batch(self.outcome.config)

    def _reserve_s(self, look_s: float) -> float:
        """Seconds of a further confirmation, a short one, and of the look at what it recommends."""
        bench, best = self.bench, self.outcome
        needed_s = reserve_s(bench.arena, bench.baseline, bench.settings)
        config = best.config if best.verdict == "change" else self.search.incumbent
        costs = ConfirmationCosts(bench, self.space.present, config, math.exp(best.gain))
        return min(needed_s, costs.least_s() + look_s)

    def _with_batch(self, nominee: Configuration) -> Configuration:
        """The nominee with a larger batch, if goodput speaks for it, and what helps beside that batch."""
        if self.search.paused or self.batch_asked:
            return nominee
        self.batch_asked = True
        bench, startup_s = self.bench, self.bench.baseline.startup_s
        deadline = bench.deadline - reserve_s(bench.arena, bench.baseline, bench.settings)
        extended = self.batches.extend(
            bench.arena, bench.profile, nominee, deadline, startup_s, bench.baseline.end
        )
        gain = self.batches.advice.goodput
        if gain is None:
            return extended
        bench.progress.say(f"trying again what may help more beside batch size {gain.batch}")
        nominee = self.search.screen_at(extended, self.search.score + math.log(gain.estimate), deadline)
        bench.baseline.session = self.search.running
        return nominee

    def _look_beyond(self) -> None:
        """What is told beside the verdict: other batches, where the bottleneck moved, the largest batch.

        It takes little beside what the verdict took: that is what the user waits for.
        """
        bench, outcome = self.bench, self.outcome
        end = min(bench.deadline, bench.clock() + max(BESIDE_S, BESIDE_SHARE * bench.spent_s))
        bench.baseline.end()
        if self.search.stopped_by == "budget" and len(self.trials.trials) == 1:
            outcome.reason = NO_TIME
        running = bench.arena.held.take(outcome.config)
        seconds = look_again_s(bench, starts=running is None)
        if outcome.verdict != "change" or seconds < bench.room_s:
            self.after, notes = look_again(bench, outcome, running)
            self.notes += notes
        else:
            self.notes.append("the budget left no time to profile the recommended setting")
            if running is not None:
                running.kill()
        startup_s = bench.baseline.startup_s
        self.batches.propose(bench.arena, outcome.config, end, startup_s)
        end -= 4 * startup_s + 40 * bench.arena.step_s
        self.batches.find_largest(bench.arena, bench.profile, outcome.config, end)

    def _save_partial(self) -> None:
        """Keep what `advisor report` shows if this process is killed."""
        outcome = self.outcome
        if outcome.verdict != "change":
            outcome = Outcome(
                self.space.present, reason="the tuner ended before the confirmation was through"
            )
        known = self._result(outcome, self.space.not_tried, finished=False)
        self.study.save_partial(self._standing(known, outcome))

    def _finish(self) -> ResultData:
        bench, study = self.bench, self.study
        for effect in side_effects(bench.launcher):
            bench.caller.warn(effect)
        tried = [trial for trial in self.trials.trials if trial.number > 0]
        self.outcome.reason = why_undecided(tried) or self.outcome.reason
        not_tried = [*self.space.not_tried, *self.search.not_tried]
        result = self._standing(self._result(self.outcome, not_tried), self.outcome)
        study.save(result)
        if bench.settings.out is not None:
            write_report(result, bench.settings.out)
            result.artefacts = keep_artefacts(bench.launcher.folder, result, bench.settings.out)
            if result.artefacts:  # a report without them comes first: what is cut off here stays one
                study.save(result)
                write_report(result, bench.settings.out)
        own_loss_ends = not bench.baseline.losses_finite
        refuse_if_all_failed(tried, study.name, study.folder, own_loss_ends=own_loss_ends)
        return result

    def _standing(self, result: ResultData, outcome: Outcome) -> ResultData:
        measured, settings = self.trials.measured, self.bench.settings
        return standing(result, self.before, outcome.decision, measured, self.space, settings)

    def _result(self, outcome: Outcome, not_tried: list[NotTried], *, finished: bool = True) -> ResultData:
        return assemble.result(
            self.bench.settings,
            self.bench.baseline,
            self.space,
            outcome,
            self.trials.trials,
            not_tried,
            self.bench.caller.warnings,
            self.study.name,
            digest=self.study.digest(),
            launches=self.bench.launcher.launches,
            stopped_by=self.stopped_by,
            seconds=self.bench.spent_s,
            batches=self.batches,
            findings=self.findings,
            notes=self.notes,
            after=self.after,
            arena=self.bench.arena,
            benches=bench_uses(self.bench),
            finished=finished,
        )
