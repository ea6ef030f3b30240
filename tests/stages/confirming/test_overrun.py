"""Which processes of a confirmation may take a little more than the budget."""

from types import SimpleNamespace
from typing import Any

import pytest

from advisor.stages.confirming.fresh_processes import FreshProcesses
from advisor.tuners.comparing.looks import SHARES, is_clear, look
from advisor.tuners.comparing.ways import WINDOWS

DEADLINE_S, OVERRUN_S, EACH_S = 100.0, 20.0, 5.0


@pytest.mark.parametrize(
    ("now", "index", "clear", "begun"),
    [
        (90.0, 2, False, True),
        (98.0, 2, False, False),
        (98.0, 2, True, True),
        (98.0, 1, False, True),
        (117.0, 2, True, False),
    ],
    ids=["in time", "late", "late, and clear already", "of the least", "beyond the grace"],
)
def test_what_is_clear_already_may_take_the_grace(now: float, index: int, clear: bool, begun: bool) -> None:
    bench: Any = SimpleNamespace(clock=lambda: now, deadline=DEADLINE_S)
    processes = FreshProcesses(bench, OVERRUN_S, expected=lambda count: EACH_S * count)
    measured = processes.measure(index, lambda: SimpleNamespace(seconds=EACH_S), clear=clear)
    assert (measured is not None) is begun


@pytest.mark.parametrize(
    ("instances", "clear", "verdict"),
    [
        ([[0.9], [1.1]], True, "continue"),  # as of two pairs of windows that differed by a fifth
        ([[1.45], [1.48]], True, "confirmed"),
        ([[0.05], [0.12]], False, "continue"),
        ([[1.5]], False, "continue"),
    ],
)
def test_a_gain_may_be_clear_before_a_look_confirms_it(
    instances: list[list[float]], clear: bool, verdict: str
) -> None:
    assert is_clear(instances, 0.02, 0.99, WINDOWS) is clear
    assert len(instances) < 2 or look(instances, 0.02, 0.99, False, SHARES[0], WINDOWS).verdict == verdict
