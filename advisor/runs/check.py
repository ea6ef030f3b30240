"""The gate: a target as it is now, in fresh processes, against the baseline that a result holds."""

import math
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from advisor.base.durations import write_duration
from advisor.base.errors import AdvisorError, TargetError, UsageError
from advisor.base.settings import Progress, Settings, TargetRequest, Value
from advisor.base.signals import StopRequests
from advisor.profiles.facts.machine import Machine, read_machine
from advisor.result.check import Answers, CheckData, Checked, ReferenceFacts, Resetting
from advisor.result.comparability import kind_differences, machine_differences, other_request, refuse
from advisor.result.document import Budget, ProfileData, ProfileSummary, ResultData
from advisor.result.header import header_of_run, target_of
from advisor.result.stored_step import LEAST_PROCESSES
from advisor.runs.answers import form_differences, has_answers, judged_answers
from advisor.runs.regression import check_memory, check_step, is_contended, undisturbed
from advisor.stages.baseline import SHORT_DROP
from advisor.stages.bench import MeasuredBench, failures_told, open_bench, run_unchanged
from advisor.stages.confirming.fresh_processes import FreshProcesses
from advisor.stages.diagnosing.result_findings import phases_ms
from advisor.stages.first_line import first_line
from advisor.stages.launching import Caller, request_digest
from advisor.stages.target_failures import target_error, too_short
from advisor.stages.thread_collapse import COLLAPSE
from advisor.tuners.comparing.duel import SLOT_LIMIT_S
from advisor.tuners.comparing.excluded import set_apart
from advisor.tuners.comparing.windows import HOPELESS
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.launching.session import Interrupted, SessionEnded
from advisor.tuners.supervision.failures import TrialFailed
from advisor.tuners.supervision.isolation import remove
from advisor.tuners.trial.messages import Slot

ENOUGH = "enough was measured to compare"
MOST_INSTANCES = 12  # more of them hardly help: the reference stays one process
INSTANCE_S = 2.0  # measured in each of them
SLOTS = (2, 24)  # of one process, at least and at most
OTHER_HINTS = {", or fewer `--steps`": "", "`--steps 5`, or let": "let", "advisor tune": "advisor check"}

Reference = ResultData | ProfileData


def refuse_reference(reference: Reference, request: TargetRequest, machine: Machine) -> None:
    """Refuse a result of another machine or of another kind of target.

    One of another machine that recommends a form of a trained model is not refused: its answers are judged.

    Args:
        reference: The stored result.
        request: What is to be checked.
        machine: Where; with torch's own version.

    Raises:
        UsageError: With all reasons, or because it holds no time of a step.
    """
    kind = request.program
    reasons = [] if has_answers(reference) else machine_differences(reference.machine, machine.as_json())
    reasons += kind_differences(reference.target.kind, kind)
    refuse(reasons, hint="`advisor tune TARGET` on this machine makes a result to compare with")
    if reference.baseline is None or reference.baseline.step_ms.estimate <= 0:
        raise UsageError(
            "the result holds no time of a step", hint="`advisor tune TARGET` makes one that does"
        )


def check(settings: Settings, name: str, reference: Reference, progress: Progress) -> CheckData:
    """Measure a target and compare it with an earlier result of it.

    Args:
        settings: What to run and for how long.
        name: The reference as the user named it.
        reference: Has passed ``refuse_reference``.
        progress: Is told what happens.

    Raises:
        TargetError: The target fails, or makes too few training steps.
        UsageError: The budget is below one run of it, or a fixed knob cannot apply.
    """
    began = time.monotonic()
    machine = read_machine()
    processes = f"{LEAST_PROCESSES} to {MOST_INSTANCES} fresh processes"
    limit = f"{processes}, up to {write_duration(settings.budget_s)}"
    progress.begin(first_line(settings.target, machine, limit))
    with StopRequests() as stop, ExitStack() as stack:
        caller = Caller(progress, stop)
        folder = Path(tempfile.mkdtemp(prefix="advisor-check-"))
        stack.callback(remove, folder)
        try:
            with failures_told("check", ENOUGH):
                bench = stack.enter_context(open_bench(settings, folder, caller, began=began))
                bench.launcher.everywhere = isinstance(reference, ResultData)  # as it was tuned
                run = _Run(run_unchanged(bench))
                run.judge(reference)
                if not run.elsewhere:
                    run.measure()
        except (TargetError, UsageError) as error:
            raise of_check(error, folder) from None
    result = _result(name, reference, run)
    for text in result.warnings:
        caller.warn(text)
    return result


@dataclass(frozen=True)
class _Process:
    """What one of them gave."""

    slots: list[Slot]
    peak_bytes: int
    seconds: float


@dataclass
class _Run:
    """Fresh processes of the target, one after the other.

    Attributes:
        instances: Slots by process.
        peaks: Peak memory by process, in bytes; 0 where it is not known.
        elsewhere: How this machine differs from that of the reference: then no times are compared.
        answers: Of the recommended form, where they were judged.
    """

    bench: MeasuredBench
    instances: list[list[Slot]] = field(init=False)
    peaks: list[int] = field(init=False)
    stopped_by: Literal["converged", "budget", "interrupted"] = "converged"
    elsewhere: list[str] = field(default_factory=list)
    answers: Answers | None = None

    def __post_init__(self) -> None:
        baseline = self.bench.baseline
        baseline.end()
        # a short program was launched several times, one window each
        self.instances = [[slot] for slot in baseline.slots] if self._is_short else [baseline.slots]
        self.peaks = [baseline.profile.peak_bytes]

    @property
    def own(self) -> dict[str, Value]:
        """The present setting of every knob."""
        return {**self.bench.arena.present, **self.bench.settings.fixed}

    def judge(self, reference: Reference) -> None:
        """Judge the answers of a recommended form anew, if it is of another CPU or of other versions.

        Raises:
            TrialFailed: The unchanged program fails.
            Interrupted: The user asked to stop.
        """
        if not isinstance(reference, ResultData) or not has_answers(reference):
            return
        self.elsewhere = machine_differences(reference.machine, self.bench.profile.machine.as_json())
        if self.elsewhere or form_differences(reference.artefacts):
            self.bench.progress.say("judging the answers of the recommended form anew")
            self.answers = judged_answers(self.bench, reference)

    def measure(self) -> None:
        """Run it until the budget ends, at least three times.

        Raises:
            TargetError: It fails.
            Interrupted: The user asked to stop before three processes were measured.
        """
        try:
            self._others()
        except Interrupted:
            if len(self.peaks) < LEAST_PROCESSES:
                raise
            self.stopped_by = "interrupted"

    def _others(self) -> None:
        each_s = self.bench.baseline.startup_s + INSTANCE_S
        processes = FreshProcesses(self.bench, math.inf, lambda count: count * each_s, LEAST_PROCESSES)
        while len(self.instances) < MOST_INSTANCES:
            process = processes.measure(len(self.peaks), self._process)
            if process is None:
                self.stopped_by = "budget"
                return
            self.instances.append(process.slots)
            self.peaks.append(process.peak_bytes)

    def _process(self) -> _Process:
        """One fresh process, measured as the baseline was."""
        bench, began = self.bench, self.bench.clock()
        bench.progress.part(f"measuring process {len(self.instances) + 1}")
        session = bench.start()
        slots: list[Slot] = []
        peak = 0
        try:
            if bench.arena.max_steps is not None:
                slots.append(session.window(bench.arena.max_steps - SHORT_DROP - 1, drop=SHORT_DROP))
            else:
                session.first_step()
                bench.arena.warm_up(session)
                slots.append(session.slot(len(bench.baseline.slots[0].step_s), drop=0))
            peak = session.facts().profile.peak_bytes
            if not self._is_short:
                self._slots(session, slots)
        except TrialFailed as failed:
            raise target_error(failed.failure, session) from None
        except SessionEnded as ended:
            if not slots:
                raise too_short(ended.outcome, bench.settings) from None
        finally:
            session.kill()
        return _Process(slots, peak, bench.clock() - began)

    def _slots(self, session: Running, slots: list[Slot]) -> None:
        steps = self.bench.arena.steps()
        slot_s = (steps + 1) * self.bench.arena.step_s
        least, most = SLOTS
        for _ in range(max(least, min(most, round(INSTANCE_S / slot_s)))):
            slots.append(session.slot(steps, drop=1, limit_s=max(SLOT_LIMIT_S, HOPELESS * slot_s)))

    @property
    def _is_short(self) -> bool:
        return self.bench.arena.max_steps is not None


def changed_settings(then: dict[str, Value], now: dict[str, Value]) -> list[Resetting]:
    """Knobs whose present setting the program, or ``--fix``, has changed."""
    return [
        Resetting(knob=knob, then=value, now=now[knob])
        for knob, value in then.items()
        if knob in now and now[knob] != value
    ]


def _result(name: str, reference: Reference, run: _Run) -> CheckData:
    assert reference.baseline is not None  # refuse_reference has seen it
    bench, settings, baseline = run.bench, run.bench.settings, run.bench.baseline
    level, request = settings.confidence, settings.target
    kept, excluded = [], Counter(bench.arena.excluded)  # what the first process left out, and then the others
    for number, slots in enumerate(run.instances):
        quiet, left_out = undisturbed(slots)
        kept.append(quiet)
        excluded += left_out if number == 0 else left_out + set_apart(slots)
    contended = is_contended(kept)
    then = reference.baseline.steps_peak_bytes or reference.baseline.peak_bytes
    if run.elsewhere:
        step = memory = Checked(why="; ".join(run.elsewhere))
    else:
        step = check_step(
            reference.baseline,
            kept,
            sampled=baseline.sampled,
            of_profile=isinstance(reference, ProfileData),
            level=level,
            min_gain=settings.min_gain,
            floor=baseline.detectable,
        )
        memory = check_memory(then, run.peaks, level=level, min_gain=settings.min_gain)
    disagrees = run.answers is not None and run.answers.verdict != "accepted"
    facts = _reference_facts(name, reference)
    digest = request_digest(request)
    return CheckData(
        **header_of_run(
            settings.command,
            target_of(request, digest=digest, launches=bench.launcher.launches),
            baseline.profile.machine.as_json(),
            settings.seed,
        ),
        profile=ProfileSummary(phases_ms=phases_ms(baseline.profile)),
        warnings=[
            *bench.caller.warnings,
            *other_request(reference, settings),
            *_disturbed(contended, baseline.thread_collapse, facts),
        ],
        budget=Budget(seconds=bench.spent_s, trials=0, stopped_by=run.stopped_by),
        verdict="regressed" if disagrees or "regressed" in (step.verdict, memory.verdict) else "passed",
        reference=facts,
        code_changed=digest != facts.digest if digest and facts.digest else None,
        settings=changed_settings(reference.baseline.config, run.own),
        min_gain=settings.min_gain,
        confidence=level,
        step_ms=step,
        peak_bytes=memory,
        answers=run.answers,
        instances=len(run.instances),
        contended=contended,
        thread_collapse=baseline.thread_collapse,
        excluded_slots={"other_load": 0, **dict(sorted(excluded.items()))},
    )


def _disturbed(contended: bool, collapsed: bool, reference: ReferenceFacts) -> list[str]:
    said = []
    if collapsed:
        said.append(COLLAPSE)
    elif contended:
        said.append(
            "other processes use this machine: a slower step can be their doing; check again when it is quiet"
        )
    if reference.contended:
        said.append(
            "other processes used the machine when the reference was measured: its times may be too long"
        )
    return said


def _reference_facts(name: str, reference: Reference) -> ReferenceFacts:
    return ReferenceFacts(
        path=name,
        made_by="profile" if isinstance(reference, ProfileData) else "tune",
        created=reference.created,
        command=list(reference.command),
        digest=reference.target.digest,
        contended=isinstance(reference, ResultData) and reference.noise.contended,
        phases_ms=reference.profile.phases_ms,
    )


def of_check(error: AdvisorError, folder: Path) -> AdvisorError:
    """The error without hints at logs, which are not kept, and at options that ``check`` does not have."""
    hint = "" if error.hint is None or str(folder) in error.hint else error.hint
    for of_tune, own in OTHER_HINTS.items():
        hint = hint.replace(of_tune, own)
    error.hint = hint or None
    return error
