"""What came of a look at one configuration on another node, and of two looks at it."""

from dataclasses import replace

from advisor.tuners.benches.crew import Came
from advisor.tuners.benches.messages import Answer, Raced
from advisor.tuners.search.measuring import Looked
from advisor.tuners.search.race import of_looks
from advisor.tuners.search.record import TrialRecord


def looked(record: TrialRecord, answer: Answer) -> Looked:
    """What a race on another node gave; its record is filled in."""
    if not isinstance(answer, Raced):
        raise AssertionError("a race is answered by what came of it")
    record.process = "shared" if answer.process == "shared" else "own"
    record.slots += answer.slots
    record.marks += [mark for mark in answer.marks if mark not in record.marks]
    record.outcome, record.startup_s = answer.outcome, answer.startup_s
    record.applied, record.refused = list(answer.applied), dict(answer.refused)
    record.log = answer.log
    return Looked(answer.estimate, answer.input_wait, answer.pairs, answer.log_ratios)


def both_looks(first: Came[Looked], second: Came[Looked]) -> Came[Looked]:
    """What two looks at one configuration say together."""
    if first.value is None or second.value is None:
        return first if first.value is None else second
    one, other = first.value, second.value
    estimate = of_looks([one.log_ratios, other.log_ratios])
    return replace(second, value=replace(other, estimate=estimate, pairs=one.pairs + other.pairs))
