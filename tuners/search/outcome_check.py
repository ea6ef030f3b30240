"""What a process tells at its end that keeps its trial from being ranked, however fast it was."""

import math

from advisor.tuners.mechanisms.compiling import compiles
from advisor.tuners.search.record import TrialRecord
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.messages import TrialOutcome

MOST_RECOMPILES = 3  # after warm-up: a shorter last batch, evaluation, and its last batch, once each


def check_outcome(record: TrialRecord, limit_bytes: int | None = None) -> None:
    """Reject what must not be ranked: losses that are not finite, compilation that gave up, too much memory.

    Args:
        record: Of a trial that had a process of its own, or it passes.
        limit_bytes: Of memory.

    Raises:
        TrialFailed: With the cause.
    """
    outcome = record.outcome
    if outcome is None:
        return
    if limit_bytes is not None:
        _check_memory(outcome, limit_bytes)
    if not all(map(math.isfinite, outcome.losses)):
        raise TrialFailed(Failure("non_finite", "a loss was NaN or infinite"))
    compiled = outcome.compile
    if compiled.failures:
        raise TrialFailed(Failure("compile_fell_back", compiled.failures[0]))
    if compiles(record.config) and not compiled.compiled:
        raise TrialFailed(Failure("compile_fell_back", "no frame was compiled: the model ran eagerly"))
    if breaks := compiled.breaks:
        _note(record, f"{breaks} graph break{'s' * (breaks > 1)}, {compiled.graphs} graphs")
    if again := compiled.recompiles:
        _note(record, f"recompiled {again} time{'s' * (again > 1)} after warm-up")
        if compiles(record.config) and again > MOST_RECOMPILES:
            why = "shapes or numbers that it takes for constant keep changing"
            raise TrialFailed(Failure("compile_fell_back", f"{record.marks[-1]}: {why}"))


def _check_memory(outcome: TrialOutcome, limit_bytes: int) -> None:
    peak = outcome.highest_bytes
    if peak > limit_bytes:
        told = f"its peak memory of {peak / 2**20:.0f} MiB exceeds {limit_bytes / 2**20:.0f} MiB"
        raise TrialFailed(Failure("oom_device" if outcome.device_peak_bytes else "oom_host", told))


def _note(record: TrialRecord, mark: str) -> None:
    if mark not in record.marks:
        record.marks.append(mark)
