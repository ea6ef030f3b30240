"""How many quads a race of live settings takes."""

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.ways import LIVE
from advisor.tuners.knobs import KNOBS
from advisor.tuners.search.race import Race
from advisor.tuners.search.record import TrialRecord
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.trial.messages import Slot

PRESENT = Configuration({"gc_freeze": "off"})
OTHER = Configuration({"gc_freeze": "on"})


def raced(gain: float, quad_s: float) -> int:
    """Quads taken of a candidate whose quads spread by 4 % around its log ratio."""
    taken: list[float] = []

    def quads(sessions: Any, configs: Any, quads: int, deadline: float, by_work: bool) -> Any:
        more = [gain + 0.04 * (-1) ** (len(taken) + place) for place in range(quads)]
        taken.extend(more)
        message = SimpleNamespace(applied=["gc_freeze"], refused={}, input_wait=None)
        return more, ([Slot((0.5,) * 3)], [Slot((0.5,) * 3)]), (message, message)

    session = SimpleNamespace(alive=True, first_step=lambda: 0.1, kill=lambda: None)
    arena = SimpleNamespace(
        knobs=KNOBS, how=lambda *of, **options: LIVE, start=lambda *of: session, sigma=0.1, threads=1,
        settled=lambda config: {}, warm_up=lambda *of, **options: None, quads=quads, clock=lambda: 0.0,
        quad_s=quad_s,
    )  # fmt: skip
    race = Race(cast(Arena, arena), clock=lambda: 0.0, base=PRESENT, least=0.1)
    race.run(PRESENT, OTHER, TrialRecord(1, OTHER, "screen"), math.inf)
    return len(taken)


@pytest.mark.parametrize(("gain", "quad_s", "quads"), [(0.0, 9.0, 3), (0.0, 0.5, 6), (0.08, 9.0, 12)])
def test_quads_that_take_long_are_spent_on_what_looks_like_a_gain(
    gain: float, quad_s: float, quads: int
) -> None:
    assert raced(gain, quad_s) == quads
