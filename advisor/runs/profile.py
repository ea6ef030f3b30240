"""One run of a target, diagnosed: from target to findings. Knows no screen."""

import math
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from advisor.advice.advise import advise, summary
from advisor.base.durations import as_option, write_duration
from advisor.base.errors import AdvisorError, UsageError
from advisor.base.settings import Progress, Settings
from advisor.base.signals import StopRequests
from advisor.base.unit import Unit
from advisor.profiles.facts.machine import read_machine
from advisor.profiles.facts.profile import Profile
from advisor.report.files import write_report
from advisor.result.document import Baseline, Budget, Interval, ProfileData, Rate
from advisor.result.header import header_of_run, target_of
from advisor.rules import RULES
from advisor.stages.bench import Bench, failures_told, open_bench
from advisor.stages.diagnosing import result_findings as data
from advisor.stages.diagnosing.diagnosis import Diagnosis
from advisor.stages.first_line import first_line
from advisor.stages.latencies import of_times
from advisor.stages.launching import Caller, request_digest
from advisor.stages.target_failures import too_short
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.space.fixed import check_applied
from advisor.tuners.space.space import build_space
from advisor.tuners.supervision.failures import OutOfTime
from advisor.tuners.supervision.isolation import remove

WATCHED_S = 120.0  # until a program was watched, however small the budget: a start alone may take half of it
LONGER = 3.0  # times: a budget that is offered in place of one in which nothing could be told
UNDERSTOOD = "the run was understood"
TRAINS_NOT = ("no_training_step", "serves_only")  # codes of errors of what ended: it may answer requests
SERVES_NOT = ("no_request", "trains", "no_training_step", "slow_start")
NO_STEP = "it takes no training step: running it again, counting requests"


def profile(settings: Settings, progress: Progress) -> ProfileData:
    """Diagnose one run: what is slow, where, and how much it could give.

    A program that ends without a training step is run again and its requests to a trained model are counted.

    Args:
        settings: What to run and for how long; an objective of requests has them counted from the start.
            Other options that only ``tune`` has are ignored.
        progress: Is told what happens.

    Returns:
        Findings and facts, also written to ``settings.out`` where that is given.

    Raises:
        TargetError: The target fails, or neither makes a training step nor answers a request.
        EnvironmentProblem: The report cannot be written.
        UsageError: A fixed knob cannot apply, or does not act.
    """
    began = time.monotonic()
    machine = read_machine()
    limit = f"one run, up to {write_duration(settings.budget_s)}"
    progress.begin(first_line(settings.target, machine, limit))
    with StopRequests() as stop, ExitStack() as stack:
        caller = Caller(progress, stop)
        folder = Path(tempfile.mkdtemp(prefix="advisor-profile-"))
        stack.callback(remove, folder)
        try:
            result = _profiled(settings, folder, caller, began)
        except AdvisorError as error:
            if settings.unit is Unit.REQUEST or error.code not in TRAINS_NOT:
                raise
            progress.say(NO_STEP)
            result = _of_requests(settings, folder, caller, began, error)
    if settings.out is not None:
        write_report(result, settings.out)
    return result


def _of_requests(
    settings: Settings, folder: Path, caller: Caller, began: float, first: AdvisorError
) -> ProfileData:
    """The profile of a program that took no step; its first error where it answers no request either."""
    apart = folder / "requests"
    apart.mkdir()
    try:
        return _profiled(replace(settings, objective="latency"), apart, caller, began)
    except AdvisorError as error:
        raise (first if error.code in SERVES_NOT else error) from None


def _profiled(settings: Settings, folder: Path, caller: Caller, began: float) -> ProfileData:
    with ExitStack() as stack:
        with failures_told("profile", UNDERSTOOD):
            bench = stack.enter_context(open_bench(settings, folder, caller, began=began))
        found, diagnosis = watched_and_more(bench)
        _check_fixed(diagnosis, settings, found)
        findings = advise(found, RULES)
        return ProfileData(
            **header_of_run(
                settings.command,
                target_of(
                    settings.target, digest=request_digest(settings.target), launches=bench.launcher.launches
                ),
                found.machine.as_json(),
                settings.seed,
            ),
            baseline=_with_latency(baseline_of(found), diagnosis, found),
            profile=data.profile_summary(found, summary=summary(findings, found), notes=diagnosis.notes),
            findings=data.as_data(findings),
            warnings=caller.warnings,
            budget=Budget(
                seconds=bench.spent_s,
                trials=0,
                stopped_by="interrupted" if diagnosis.interrupted else "converged",
            ),
        )


def _check_fixed(diagnosis: Diagnosis, settings: Settings, found: Profile) -> None:
    """Refuse a profile of something else than was asked for.

    Raises:
        UsageError: A fixed knob does not act.
    """
    if diagnosis.session is not None:
        check_applied(KNOBS, settings.fixed, diagnosis.session.last.refused, found)
    build_space(KNOBS, found, fixed=settings.fixed)


def watched_and_more(bench: Bench) -> tuple[Profile, Diagnosis]:
    """Diagnose what a bench runs within its budget: what does not fit once it was watched is left out.

    Raises:
        TargetError: It fails, or ends too early.
        UsageError: The budget has no room to watch it.
    """
    settings = bench.settings
    bench.end_in_time(WATCHED_S)
    diagnosis = bench.diagnosis(
        bench.deadline,
        steps=settings.steps,
        planned_steps=settings.steps_planned,
        watched=bench.end_in_time,
    )
    with failures_told("profile", UNDERSTOOD, of=diagnosis):
        try:
            return diagnosis.run(), diagnosis
        except OutOfTime:
            told = f"the program was not watched within the budget of {as_option(settings.budget_s)}"
            minutes = math.ceil(LONGER * max(settings.budget_s, WATCHED_S) / 60)
            raise UsageError(told, where="--budget", hint=f"`--budget {minutes}m`") from None
        except SessionEnded as ended:
            raise too_short(ended.outcome, settings) from None


def _with_latency(baseline: Baseline | None, diagnosis: Diagnosis, found: Profile) -> Baseline | None:
    """With percentiles of all watched requests, slow ones among them, where requests were counted."""
    if baseline is None or not found.serves:
        return baseline
    times = [spent / 1e9 for spent in diagnosis.wall_ns]
    samples = found.run.samples_per_step if found.run is not None else None
    began = None if diagnosis.session is None else diagnosis.session.startup_s
    latency = of_times(times, (samples or 1.0) * len(times), [] if began is None else [began])
    return baseline.model_copy(update={"latency": latency})


def baseline_of(found: Profile) -> Baseline | None:
    """Step time and throughput as watched, with the quartiles-based spread of the mean."""
    series, run = found.series, found.run
    if series is None or series.steps == 0:
        return None
    half = 2.6 * max(series.p95_ms - series.p5_ms, 0.0) / 3.3 / series.steps**0.5
    low, high = max(series.median_ms - half, 1e-9), series.median_ms + half
    samples = run.samples_per_step if run is not None and run.samples_per_step else None
    work = (samples or 1.0) * 1000
    return Baseline(
        config={},
        step_ms=Interval(estimate=series.median_ms, low=low, high=high),
        throughput=Rate(
            estimate=work / series.median_ms,
            low=work / high,
            high=work / low,
            unit="samples/s" if samples else "steps/s",
        ),
        peak_bytes=found.peak_bytes,
    )
