"""Why the fastest batch is not the recommended one."""

import math
from typing import Any, cast

import pytest

from advisor.base.settings import Settings, TargetRequest
from advisor.stages.assemble import _proposals
from advisor.stages.batch_size import Batches
from advisor.stages.confirming.outcome import Outcome
from advisor.stages.larger_batch import BatchAdvice
from advisor.tuners.comparing.batches.batch_throughput import Measured
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.space.configuration import Configuration


def measured(batch: int, ratio: float) -> Measured:
    centre = math.log(ratio)
    return Measured(batch, "linear", Estimate(centre, centre - 0.01, centre + 0.01, 0.99, 6, 2))


@pytest.mark.parametrize(
    ("reason", "chosen", "told"),
    [
        ("", 64, "learnt per sample: by goodput batch size 64 is better; with it"),
        (
            "with batch size 128, it is worse",
            64,
            "learnt per sample: with batch size 128, it is worse; with it",
        ),
        ("", None, "learnt per sample: convergence unverified; with it"),
    ],
)
def test_the_fastest_batch_says_why_it_is_only_a_proposal(reason: str, chosen: int | None, told: str) -> None:
    batches = Batches(Settings(target=TargetRequest(kind="script", name="train.py")), cast(Any, None))
    batches.measured = [measured(64, 2.0), measured(128, 3.0)]
    batches.advice = BatchAdvice(
        batches.measured, chosen=None if chosen is None else batches.measured[0], reason=reason
    )
    (found,) = _proposals(Outcome(Configuration({"batch_size": chosen or 32})), batches)
    assert found.to == 128 and told in found.reason
    assert _proposals(Outcome(Configuration({"batch_size": 128})), batches) == []


def test_a_batch_that_is_best_by_goodput_is_not_said_to_be_worse_than_itself() -> None:
    batches = Batches(Settings(target=TargetRequest(kind="script", name="train.py")), cast(Any, None))
    batches.measured = [measured(64, 2.0), measured(128, 3.0)]
    batches.advice = BatchAdvice(batches.measured, chosen=batches.measured[1])
    (found,) = _proposals(
        Outcome(Configuration({"batch_size": 32}), reason="batch_size=128: no clear difference"), batches
    )
    assert "learnt per sample: batch_size=128: no clear difference; with it" in found.reason
