"""What was confirmed is not confirmed once more."""

import math

import pytest
from confirmation_builder import STEP_S, confirmed, some_settings

from advisor.stages.confirming.confirmation import NOTHING_BETTER
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.knob import Value
from advisor.tuners.search import ablate
from advisor.tuners.search.removal import Removal
from advisor.tuners.space.configuration import Configuration

NOMINEE: dict[str, Value] = {"execution": "compile", "amp": "bf16"}
LEFT: dict[str, Value] = {"execution": "eager", "amp": "bf16"}


@pytest.mark.parametrize("stands", [LEFT, None])
def test_what_is_left_of_a_nominee_is_confirmed_unless_it_was(
    monkeypatch: pytest.MonkeyPatch, stands: dict[str, Value] | None
) -> None:
    nothing = Removal("execution", Estimate(0.0, -0.01, 0.01, 0.99, 4, 1), needed=False)
    monkeypatch.setattr(ablate, "removals", lambda *of, **how: (Configuration(LEFT), [nothing]))
    settings = some_settings("throughput")
    outcome = confirmed(monkeypatch, settings, STEP_S / math.sqrt(2), nominee=NOMINEE, stands=stands)
    if stands is None:
        assert outcome.verdict == "change" and outcome.config == LEFT
    else:
        assert (outcome.verdict, outcome.reason) == ("keep", NOTHING_BETTER) and outcome.decision is None
