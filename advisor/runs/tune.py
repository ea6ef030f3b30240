"""The whole sequence from target to result: baseline, search, reduction, gate, confirmation.

Calls everything below and knows no screen: what it does is told to a ``Progress``, what it finds is
returned. Only a confirmation on fresh processes can recommend.
"""

import json
import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from advisor.advice.advise import advise
from advisor.advice.finding import Finding
from advisor.base.durations import write_duration
from advisor.base.errors import NoValidTrial, TargetError
from advisor.base.settings import MAX_TRIALS, Clock, Progress, Settings
from advisor.base.signals import StopRequests
from advisor.profiles.facts.machine import read_machine
from advisor.profiles.facts.profile import Profile
from advisor.report.files import write_report
from advisor.result.document import ResultData
from advisor.rules import RULES
from advisor.stages import assemble, expected
from advisor.stages.baseline import Baseline, run_baseline, target_error
from advisor.stages.batch_size import Batches
from advisor.stages.confirmation import Confirmation
from advisor.stages.confirmation_plan import reserve_s
from advisor.stages.diagnosis import Diagnosis
from advisor.stages.first_line import first_line
from advisor.stages.guidance import priorities
from advisor.stages.launching import make_launcher, side_effects
from advisor.stages.outcome import Outcome
from advisor.stages.searched import searched_space
from advisor.stages.standing import standing
from advisor.stages.study import Study
from advisor.stages.trials import Keeping
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.memory_duel import MemoryArena
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.launch import Launcher, StuckProcess
from advisor.tuners.launching.session import Interrupted, SessionEnded
from advisor.tuners.search.measured import Measured
from advisor.tuners.search.search import Search, StoppedBy
from advisor.tuners.space.memory_model import memory_limit
from advisor.tuners.space.space import NotTried, Space
from advisor.tuners.supervision.failures import TrialFailed

DIAGNOSIS_SHARE = 0.1  # of the budget
DIAGNOSIS_S = 45.0  # at most
LEAST_DIAGNOSIS_S = 6.0  # beside starting the program; in less nothing is learnt
LOOK_AGAIN_S = 8.0  # for the winner, beside starting it twice
LEAST_SEARCH_SHARE = 0.15  # of the budget, whatever came before it took
SEARCH_SHARE = 0.65  # of the budget at most, before the confirmation begins
LATEST_SHARE = 0.9  # of the budget, as long as there is nothing to confirm


Launching = Callable[..., Launcher]  # as ``make_launcher``


def tune(
    settings: Settings,
    progress: Progress,
    *,
    launching: Launching = make_launcher,
    clock: Clock = time.monotonic,
) -> ResultData:
    """Find out what to change about a training run, and prove it.

    Args:
        settings: What to run, and the limits.
        progress: Is told what happens.
        launching: Makes the launcher, as ``make_launcher`` does.
        clock: Seconds, monotonic, by which the budget is spent.

    Returns:
        The result, also written to ``settings.out``; after an interrupt what is known so far.

    Raises:
        TargetError: The target fails although nothing was changed.
        UsageError: Settings that cannot be meant, or a resumed study that is about something else.
        EnvironmentProblem: Storage or machine do not allow it.
        NoValidTrial: Every configuration failed.
    """
    with StopRequests() as stop, ExitStack() as stack:
        return _Tuning(settings, progress, stop, stack, launching, clock).run()


@dataclass
class _Tuning:
    """One call of ``tune``."""

    settings: Settings
    progress: Progress
    stop: StopRequests
    stack: ExitStack
    launching: Launching = make_launcher
    clock: Clock = time.monotonic
    began: float = field(init=False)
    warnings: list[str] = field(default_factory=list)
    stopped_by: StoppedBy = "converged"
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    after: Profile | None = None
    batches: Batches = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()
        self.batches = Batches(self.settings, self.progress)

    def run(self) -> ResultData:
        """The stages in order; what is known is assembled at the end, however it ends."""
        self._begin()
        study = Study.open(self.settings, self.stack, self._warn)
        launcher, arena, baseline = self._baseline(study)
        widest = searched_space(self.settings, self.batches, baseline.profile, 0.0)
        measured = study.join(baseline.profile, widest.choices, self.progress.say)
        before = study.result()
        self._diagnose(launcher, arena, baseline)
        space = self._space(baseline, arena, study)
        self._say_how_long(arena, space, baseline)
        keeping = Keeping(
            self.progress,
            self.clock,
            self.began + self.settings.budget_s,
            study.store,
            study.name,
            space.present,
            bool(baseline.profile.run and baseline.profile.run.samples_per_step),
            measured,
        )
        self.batches.trials = keeping.trials
        search = self._search(arena, space, baseline, keeping, study)

        def so_far(reason: str = "", *, finished: bool = True) -> ResultData:
            outcome, left = Outcome(dict(space.present), reason=reason), space.not_tried
            return self._result(study, arena, baseline, space, outcome, keeping, left, finished=finished)

        def partial() -> None:  # what `advisor report` shows if this process is killed
            known = so_far("the tuner ended before the confirmation", finished=False)
            study.save_partial(standing(known, before, None, keeping.measured, space, self.settings))

        keeping.kept = partial
        keeping.record(baseline.as_record(space.present), space.key(space.present))
        outcome = Outcome(dict(space.present), reason="interrupted before the confirmation")
        try:
            held = self._held(arena, space, baseline, keeping.measured)
            if held is not None:
                self.progress.say("going on with the confirmation that was left open")
                baseline.end()
                outcome = self._confirm(arena, space, baseline, keeping, search, held, reduced=True)
                self.stopped_by = "converged" if outcome.verdict == "change" else "budget"
            if held is None or (outcome.verdict != "change" and self.clock() < search.deadline):
                try:
                    nominee = search.run(baseline.session)
                finally:
                    self.stopped_by = search.stopped_by
                nominee = self._with_batch(arena, baseline, search, nominee)
                found = None if before is None else before.recommendation
                if found is not None and found.verdict == "change" and nominee == found.config:
                    outcome.reason = "nothing better was found than what was confirmed before"
                else:
                    outcome = self._confirm(arena, space, baseline, keeping, search, nominee)
            if search.stopped_by == "budget" and len(keeping.trials) == 1:
                outcome.reason = "the budget left no time to try a change; give a longer --budget"
            self.batches.propose(arena, outcome.config, self.began + self.settings.budget_s)
            self._look_again(launcher, arena, baseline, outcome)
            end = self.began + self.settings.budget_s - 4 * baseline.startup_s - 40 * arena.step_s
            self.batches.find_largest(arena, baseline.profile, outcome.config, end)
        except Interrupted:
            self.stopped_by = "interrupted"
            keeping.interrupted()
        except StuckProcess as stuck:
            self.stopped_by = "failures"
            self._warn(f"{stuck.message}; {stuck.hint}")
            keeping.interrupted(stuck.message)
        not_tried = [*space.not_tried, *search.not_tried]
        return self._finish(study, arena, baseline, space, outcome, keeping, not_tried, before)

    def _begin(self) -> None:
        machine = read_machine()
        trials = "" if self.settings.trials is None else f"{self.settings.trials} trials or "
        limit = f"up to {trials}{write_duration(self.settings.budget_s)}"
        self.progress.begin(first_line(self.settings.target, machine, limit))

    def _say_how_long(self, arena: Arena, space: Space, baseline: Baseline) -> None:
        left = self.settings.budget_s - (self.clock() - self.began)
        later = reserve_s(arena, baseline, self.settings)
        trials = self.settings.trials
        told = expected.said(arena, space, baseline.startup_s, trials=trials, left_s=left, later_s=later)
        self.progress.say(told)

    def _baseline(self, study: Study) -> tuple[Launcher, Arena, Baseline]:
        self.progress.say("running it unchanged")
        try:
            launcher = self.stack.enter_context(
                self.launching(
                    self.settings, study.folder, self.stack, self._waiting, self._warn, self.progress.say
                )
            )
            self.began += launcher.waited_s
            arena = (MemoryArena if self._for_memory else Arena)(launcher, KNOBS, {}, clock=self.clock)
            baseline = run_baseline(launcher, arena, self.settings)
        except TrialFailed as failed:
            error = target_error(failed.failure, None)
            study.keep_failed_baseline(error, failed.failure.cause)
            raise error from None
        except TargetError as error:
            study.keep_failed_baseline(error, "user_error")
            raise
        except Interrupted:
            raise TargetError("interrupted before the baseline was measured", code="interrupted") from None
        most, peak = self.settings.max_memory, baseline.profile.peak_bytes
        if most is not None and peak > most:
            told = f"{peak / 2**20:.0f} MiB, more than the {most / 2**20:.0f} MiB of --max-memory"
            self._warn(f"the unchanged program uses {told}: only what uses less can be recommended")
        arena.training_dataset = baseline.profile.loader.dataset if baseline.profile.loader else None
        baseline.teach(arena)
        if baseline.thread_collapse:
            self._warn(
                "threads collapse under other load on this machine; times are not those of a quiet one"
            )
        elif baseline.contended:
            self._warn("other processes use this machine; small differences cannot be told")
        return launcher, arena, baseline

    def _diagnose(self, launcher: Launcher, arena: Arena, baseline: Baseline) -> None:
        """Profile the program in a process of its own, where the budget has room; then run the rules."""
        left = self.settings.budget_s - (self.clock() - self.began)
        limit = min(DIAGNOSIS_S, max(DIAGNOSIS_SHARE * self.settings.budget_s, 2 * baseline.startup_s))
        if left > 4 * limit and limit > baseline.startup_s + LEAST_DIAGNOSIS_S:
            if not arena.two_fit:
                baseline.end()
            diagnosis = Diagnosis(
                lambda: launcher.start(0, self.settings.fixed, {}),
                arena,
                self.clock() + limit,
                self.progress,
                self.clock,
            )
            try:
                baseline.profile = diagnosis.run()
                self.notes += diagnosis.notes
            except (TrialFailed, SessionEnded) as end:
                self.notes.append(f"the diagnosis failed, findings rest on the baseline alone: {end}")
            except Interrupted:  # the search is told again, and ends with what there is
                self.notes.append("interrupted while profiling: findings rest on the baseline alone")
        else:
            self.notes.append("the budget left no time to profile: findings rest on the baseline alone")
        self.findings = advise(baseline.profile, RULES)

    def _look_again(self, launcher: Launcher, arena: Arena, baseline: Baseline, outcome: Outcome) -> None:
        """Profile the winner, so that the report shows where the bottleneck moved."""
        if outcome.verdict != "change":
            return
        own = dict(arena.present)
        diagnosis = Diagnosis(
            lambda: launcher.start(0, outcome.config, own, training_dataset=arena.training_dataset),
            arena,
            self.clock() + LOOK_AGAIN_S + 2 * baseline.startup_s,
            self.progress,
            self.clock,
        )
        try:
            self.after = diagnosis.again()
        except (TrialFailed, SessionEnded) as end:
            self.notes.append(f"the recommended setting could not be profiled: {end}")

    def _space(self, baseline: Baseline, arena: Arena, study: Study) -> Space:
        # What bounds a gain in time says nothing about one in memory.
        detectable = 0.0 if self._for_memory else baseline.detectable
        space = searched_space(self.settings, self.batches, baseline.profile, detectable, study.begun)
        study.keep_space(space.choices)
        arena.present = space.own
        if baseline.session is not None:
            baseline.session.settle(space.own)
        return space

    @property
    def _for_memory(self) -> bool:
        return self.settings.objective == "memory"

    def _search(
        self,
        arena: Arena,
        space: Space,
        baseline: Baseline,
        keeping: Keeping,
        study: Study,
    ) -> Search:
        reserve = reserve_s(arena, baseline, self.settings)
        deadline = self.began + self.settings.budget_s - reserve
        self.batches.learn_worth(arena, space, baseline.profile, deadline)
        spent = self.clock() - self.began
        least = spent + LEAST_SEARCH_SHARE * self.settings.budget_s
        end = max(least, min(self.settings.budget_s - reserve, SEARCH_SHARE * self.settings.budget_s))
        self.stack.enter_context(study.guarded())
        limit = memory_limit(baseline.profile, self.settings.max_memory)
        return Search(
            arena,
            space,
            baseline.profile,
            study.optuna(baseline.step_s),
            keeping,
            deadline=self.began + end,
            latest=self.began + LATEST_SHARE * self.settings.budget_s,
            max_trials=self.settings.trials or MAX_TRIALS,
            measured=keeping.measured,
            priorities=priorities(self.findings),
            worth=lambda config: self.batches.worth(config, space.present),
            allow_training=self.settings.allow_training,
            # one change alone need not bring a program that uses more than it may below the limit
            limit_bytes=None if limit is None else max(limit, baseline.profile.peak_bytes),
            next_number=study.next_number(),
            clock=self.clock,
        )

    def _confirm(
        self,
        arena: Arena,
        space: Space,
        baseline: Baseline,
        keeping: Keeping,
        search: Search,
        nominee: dict[str, Value],
        *,
        reduced: bool = False,
    ) -> Outcome:
        confirmation = Confirmation(
            arena,
            space,
            baseline,
            self.settings,
            keeping,
            self.progress,
            deadline=self.began + self.settings.budget_s,
            next_number=search.next_number,
            worth=lambda config: self.batches.sure_worth(config, space.present),
            measured=keeping.measured,
            keep=keeping.keep_instance,
            keep_contributions=keeping.keep_contributions,
            compiled_s=keeping.first_compile_s,
            clock=self.clock,
        )
        try:
            return confirmation.decide(nominee, reduced=reduced)
        finally:
            search.next_number = confirmation.next_number

    def _held(
        self, arena: Arena, space: Space, baseline: Baseline, measured: Measured
    ) -> dict[str, Value] | None:
        """The configuration whose confirmation is open, if it may be tried and weighed now."""
        settings, end = self.settings, self.began + self.settings.budget_s
        for key in measured.open_confirmations(min_gain=settings.min_gain, level=settings.confidence):
            config: dict[str, Value] = json.loads(key)
            known = config.keys() == space.present.keys() and config != space.present
            if known and space.check(config) is None:
                weighed = self.batches.can_weigh(arena, space, baseline.profile, config, end)
                return config if weighed else None
        return None

    def _with_batch(
        self, arena: Arena, baseline: Baseline, search: Search, nominee: dict[str, Value]
    ) -> dict[str, Value]:
        """The nominee with a larger batch, if goodput speaks for it, and what helps beside that batch."""
        deadline = self.began + self.settings.budget_s - reserve_s(arena, baseline, self.settings)
        extended = self.batches.extend(arena, baseline.profile, nominee, deadline, baseline.startup_s)
        gain = self.batches.advice.goodput
        if gain is None:
            return extended
        self.progress.say(f"trying again what may help more beside batch size {gain.batch}")
        return search.screen_at(extended, search.score + math.log(gain.estimate), deadline)

    def _finish(
        self,
        study: Study,
        arena: Arena,
        baseline: Baseline,
        space: Space,
        outcome: Outcome,
        keeping: Keeping,
        not_tried: list[NotTried],
        before: ResultData | None,
    ) -> ResultData:
        for effect in side_effects(arena.launcher):
            self._warn(effect)
        result = self._result(study, arena, baseline, space, outcome, keeping, not_tried)
        result = standing(result, before, outcome.decision, keeping.measured, space, self.settings)
        study.save(result)
        if self.settings.out is not None:
            write_report(result, self.settings.out)
        tried = [trial for trial in result.trials if trial.number > 0]
        if tried and all(trial.state == "failed" and trial.cause != "killed" for trial in tried):
            raise NoValidTrial.of_causes(
                [str(trial.cause) for trial in tried],
                study.name,
                where=str(study.folder),
                own_loss_ends=not baseline.losses_finite,
            )
        return result

    def _result(
        self,
        study: Study,
        arena: Arena,
        baseline: Baseline,
        space: Space,
        outcome: Outcome,
        keeping: Keeping,
        not_tried: list[NotTried],
        *,
        finished: bool = True,
    ) -> ResultData:
        return assemble.result(
            self.settings,
            baseline,
            space,
            outcome,
            keeping.trials,
            not_tried,
            self.warnings,
            study.name,
            digest=study.digest(),
            launches=arena.launcher.launches,
            stopped_by=self.stopped_by,
            seconds=self.clock() - self.began,
            batches=self.batches,
            findings=self.findings,
            notes=self.notes,
            after=self.after,
            arena=arena,
            finished=finished,
        )

    def _waiting(self, what: str, seconds: float) -> None:
        if self.stop.received is not None:
            raise Interrupted
        self.progress.waiting(what, seconds)

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)
            self.progress.warn(text)
