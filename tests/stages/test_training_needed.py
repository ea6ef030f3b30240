"""What training would have to reach where a form of 8 bits is faster and loses too much."""

from typing import Literal

import pytest

from advisor.result.document import Interval, Ratio, Trial
from advisor.stages.confirming.outcome import Outcome
from advisor.stages.training_needed import training_needed
from advisor.tuners.comparing import gate
from advisor.tuners.space.configuration import Configuration

PRESENT = Configuration({"quantization": "none", "amp": "off"})
LOSS = "a loss of 2.18%; tolerated are 1.00%"


def trial(number: int, estimate: float, step_ms: float, **config: str) -> Trial:
    ratio = Ratio(
        estimate=estimate, low=estimate - 0.1, high=estimate + 0.1, quads=4, instances=1, confidence=0.9
    )
    taken = Interval(estimate=step_ms, low=step_ms, high=step_ms)
    return Trial(
        number=number, config={**PRESENT, **config}, process="own", stage="screen", state="complete",
        against_baseline=ratio, step_ms=taken,
    )  # fmt: skip


def refused(
    verdict: Literal["drifts", "not_checked"] = "drifts", of: str = "quantization", by: str = "metric"
) -> Outcome:
    found = {of: gate.Verdict(verdict, LOSS, by)}
    return Outcome(PRESENT, numerics=found, rejected={of: LOSS})


TRIALS = [
    trial(1, 1.4, 0.3, quantization="int8_weight_only"),
    trial(2, 1.9, 0.22, quantization="int8_dynamic"),
    trial(3, 2.5, 0.17, amp="bf16"),
]


def test_a_refused_form_says_what_training_would_have_to_reach() -> None:
    (found,) = training_needed(refused(), TRIALS, PRESENT, 0.01)
    assert (found.knob, found.to) == ("quantization", "int8_dynamic")
    assert found.measured is not None and found.measured.estimate == 1.9
    assert found.reason.startswith(f"{LOSS}. Quantisation-aware training")
    assert "at most 1.00% at this speed" in found.reason and "in 0.22 ms or less a request" in found.reason


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(PRESENT),
        refused("not_checked"),  # too few samples: more of them come first
        refused(of="amp"),  # no training makes up for it
        refused(by="kernel"),  # nor for kernels that saturate
        Outcome(PRESENT, rejected={"quantization": "p99 is not shown"}),
    ],
)
def test_nothing_is_said_where_no_loss_was_seen(outcome: Outcome) -> None:
    assert training_needed(outcome, TRIALS, PRESENT, 0.01) == []


def test_a_form_that_is_no_faster_is_not_worth_a_training() -> None:
    slow = [trial(1, 1.05, 0.41, quantization="int8_dynamic")]
    assert training_needed(refused(), slow, PRESENT, 0.01) == []


def test_what_was_refused_before_is_told_beside_what_was_confirmed_instead() -> None:
    changed = Outcome(PRESENT.with_({"amp": "bf16"}), "change")
    changed.remember(refused())
    assert changed.rejected == {"quantization": LOSS} and changed.numerics["quantization"].verdict == "drifts"
    adopted = Outcome(PRESENT.with_({"quantization": "int8_static"}), "change")
    adopted.remember(refused())
    assert not adopted.rejected and not adopted.numerics
