"""A confirmation that was cut off goes on with the processes that it has."""

import math

import pytest
from confirmation_builder import EAGER, STEP_S, confirmed, some_settings

from advisor.tuners.search.measured import Measured

NOMINEE = EAGER.with_({"amp": "bf16"})
BEFORE = [[math.log(1.15)]] * 4  # the look at two is not sure, that at four is


@pytest.mark.parametrize("count", range(len(BEFORE) + 1))
def test_only_missing_processes_are_launched(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Measured(instances={NOMINEE: BEFORE[:count]})
    settings = some_settings("goodput")
    outcome = confirmed(monkeypatch, settings, STEP_S / 1.15, nominee=NOMINEE, measured=measured)
    assert outcome.verdict == "change" and outcome.decision is not None
    assert len(outcome.unchanged_ms) == 4 - count
    assert outcome.decision.estimate.instances == len(measured.instances[NOMINEE]) == 4


def test_one_that_was_decided_launches_none(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Measured(instances={NOMINEE: [*BEFORE, [math.log(1.5)], [math.log(1.5)]]})
    outcome = confirmed(monkeypatch, some_settings("goodput"), STEP_S, nominee=NOMINEE, measured=measured)
    assert (outcome.verdict, outcome.unchanged_ms) == ("change", [])
