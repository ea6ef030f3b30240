"""What is left of a candidate once its numbers were looked at: losses of a training, answers to requests."""

import math
from collections.abc import Sequence
from dataclasses import replace

from advisor.base.settings import GRACE
from advisor.base.unit import Unit
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.agreement import AgreementCheck
from advisor.stages.confirming.numerics import Numerics, NumericsGate, OtherNode
from advisor.stages.confirming.numerics_check import NumericsCheck
from advisor.tuners.comparing import gate
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space


def judged_numbers(
    bench: MeasuredBench,
    space: Space,
    winner: Configuration,
    latest_start: float,
    elsewhere: OtherNode | None = None,
    apart: Sequence[str] = (),
) -> tuple[Numerics, gate.Reference | None]:
    """Judge a candidate; the process of the baseline is ended.

    Args:
        bench: On which it runs.
        space: Knows the program as it is.
        winner: The candidate.
        latest_start: By the clock; later no process is started.
        elsewhere: Another node, on which fresh processes run in place of this one.
        apart: Changes that are judged by themselves, and nothing else is; all where there are none.

    Returns:
        What was found, and the losses that it was held beside, where it trains.

    Raises:
        TrialFailed: A process failed.
        OutOfTime: There was no time left.
    """
    arena = bench.arena
    alone = space.complete({name: winner[name] for name in apart}) if apart else winner
    if not alone.changed(space.present):  # they have no effect without the others
        bench.baseline.end()
        return Numerics(winner), None
    arena.latest_start = latest_start
    try:
        if bench.settings.unit is Unit.REQUEST:
            bench.baseline.end()
            return AgreementCheck(bench, space, bench.settings.max_loss).run(winner), None
        judge = NumericsGate.open(bench, space.present, GRACE, bench.baseline.session, elsewhere)
        try:
            found = NumericsCheck(judge, space).run(alone)
            return (_with_others(found, alone, winner, space) if apart else found), judge.reference
        finally:
            judge.close()
    finally:
        arena.latest_start = math.inf
        bench.baseline.end()


def _with_others(found: Numerics, alone: Configuration, winner: Configuration, space: Space) -> Numerics:
    """What is left of a candidate some of whose changes were judged alone: of the whole nothing is known."""
    for name in alone.changed(found.config):
        winner = space.without(winner, name)
    whole = found.verdicts.pop("")
    verdicts = {**dict.fromkeys(found.config.changed(space.present), whole), **found.verdicts}
    return replace(found, config=winner, verdicts=verdicts, peaks=())
