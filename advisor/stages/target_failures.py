"""How failures of the user's own program are shown, where nothing was changed."""

from pathlib import Path

from advisor.base.errors import AdvisorError, TargetError, UsageError
from advisor.base.settings import Settings
from advisor.base.unit import Unit
from advisor.profiles.hooks.model.requests import TRAINS
from advisor.tuners.launching.children import started_in
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.launching.stacks import own_calls
from advisor.tuners.supervision.failures import IN_CHILDREN, WOULD_CHANGE, Failure
from advisor.tuners.trial.loop import SERVES_ONLY
from advisor.tuners.trial.messages import TrialOutcome

NEEDED_STEPS = 30  # for warm-up, a window of phases, and one comparison of the program with itself
SAID_BYTES = 4000  # of the program's own last words
SLOW_START = (
    "a start may take half of `--budget`, and 60 s at least, with all that comes before the first step: give "
    "a longer one, or do less there; a trained model takes `--objective latency`, anything else a workload: "
    "`advisor init`"
)
NO_REQUEST = "no request found: the program called no model, no `generate` and no pipeline of transformers"


def target_error(failure: Failure, session: Running | None, command: str = "tune") -> AdvisorError:
    """The user's own failure, as it is shown: the traceback that they would have seen.

    A program that was ended before it changed a file of theirs did not fail: that takes an option.

    Args:
        failure: How it ended.
        session: Whose logs say more; only those of ``tune`` are kept.
        command: Of advisor, for its hints.
    """
    if failure.message.startswith(WOULD_CHANGE):
        option = "a result of `advisor tune --allow-writes`" if command == "apply" else "`--allow-writes`"
        return UsageError(
            failure.message,
            cause="its writes cannot be kept apart here (`advisor doctor` says why)",
            hint=f"{option} if every launch may change it, or have the program write elsewhere",
            code="would_change",
        )
    if failure.message.startswith(IN_CHILDREN):
        return TargetError(
            failure.message,
            where=failure.where,
            cause="steps are measured in the process that is started",
            hint=f"give `advisor {command}` a script that does itself what one of them does; ranks of one "
            "training are followed where `torchrun` starts them",
            code="trains_in_children",
        )
    if TRAINS in failure.message:
        return UsageError(
            TRAINS, where="--objective", hint="`--objective goodput`, or `throughput`", code="trains"
        )
    if SERVES_ONLY in failure.message:
        return UsageError(SERVES_ONLY, hint="`--objective latency`, or `requests`", code="serves_only")
    log = "" if session is None or command != "tune" else str(session.folder / "stderr.log")
    if failure.cause == "timeout" and "start" in failure.message:
        started = "" if session is None else started_in(session.folder)
        meanwhile = f"; it started processes that may train: {started}" if started else ""
        calls = "" if session is None else own_calls(session.folder)
        was_at = f"; it was at {calls}" if calls else ""
        return TargetError(
            f"no training step found: optimizer.step() was not called ({failure.message}): its start takes "
            f"longer, or it trains nothing{meanwhile}{was_at}",
            hint=SLOW_START,
            code="slow_start",
        )
    error = TargetError(
        failure.message.splitlines()[0] if failure.message else failure.cause,
        where=failure.where,
        cause=failure.cause,
        hint=f"its output is in {log}" if log else None,
        code=failure.cause,
    )
    error.trace = failure.trace.rstrip()
    said = "" if session is None else _last_words(session.folder / "stderr.log")
    if failure.message.startswith("the program ended with exit status"):
        error.trace = said.rstrip()
        if "usage:" in said:
            error.hint = f"pass its arguments after `--`: `advisor {command} train.py -- --data DIR`"
    if failure.message.startswith("EOFError"):
        error.message = "the script asked for input (stdin is closed)"
        error.hint = "give the answer as an argument after `--`"
    return error


def _last_words(log: Path) -> str:
    """The end of a log, which is bounded; an empty text where there is none."""
    try:
        return log.read_bytes()[-SAID_BYTES:].decode(errors="replace")
    except OSError:
        return ""


def too_short(outcome: TrialOutcome, settings: Settings) -> TargetError:
    """The program ended before it could be measured."""
    steps = outcome.steps
    if steps == 0 and settings.unit is Unit.REQUEST:
        return TargetError(
            NO_REQUEST,
            hint="write `with advisor.request():` around what answers one, or a workload",
            code="no_request",
        )
    if steps == 0 and outcome.loaded:
        return TargetError(
            f"no training step was left: the program resumed from {outcome.loaded[-1]} and ended, complete "
            "by its checkpoint",
            hint="have it start afresh: another name or folder for its run, or more steps",
            code="complete_by_checkpoint",
        )
    if steps == 0:
        return TargetError(
            "no training step found: the program ended without an optimizer.step() or backward()",
            hint="write a workload: `advisor init`; a trained model takes `--objective latency`",
            code="no_training_step",
        )
    needed = NEEDED_STEPS if settings.steps is None else settings.steps
    told = f"only {steps} {settings.unit}s ran; {needed} are needed"
    if steps >= needed:
        told = f"the program ended after {steps} {settings.unit}s, before they could be measured"
    return TargetError(
        told,
        hint="`--steps 5`, or let the script run longer",
        code="too_few_steps",
    )
