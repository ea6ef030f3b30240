"""How many quads a race of live settings takes."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.ways import LIVE
from advisor.tuners.knobs import KNOBS
from advisor.tuners.search.race import Race
from advisor.tuners.search.record import TrialRecord
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.supervision.failures import Cause, Failure, TrialFailed
from advisor.tuners.trial.messages import Slot

PRESENT = Configuration({"gc_freeze": "off"})
OTHER = Configuration({"gc_freeze": "on"})


def an_arena(fresh: Any, quads_of: Callable[[Any], float], quad_s: float = 0.5) -> Any:
    """Live settings; a started process is the fresh one, and quads of a session have one log ratio."""

    def quads(sessions: Any, configs: Any, quads: int, deadline: float, by_work: bool) -> Any:
        message = SimpleNamespace(applied=["gc_freeze"], refused={}, input_wait=None)
        more = [quads_of(sessions[0]) for _ in range(quads)]
        return more, ([Slot((0.5,) * 3)], [Slot((0.5,) * 3)]), (message, message)

    return SimpleNamespace(
        knobs=KNOBS, how=lambda *of, **options: LIVE, start=lambda *of: fresh, sigma=0.1, threads=1,
        settled=lambda config: {}, warm_up=lambda *of, **options: None, quads=quads, clock=lambda: 0.0,
        quad_s=quad_s,
    )  # fmt: skip


def raced(gain: float, quad_s: float) -> int:
    """Quads taken of a candidate whose quads spread by 4 % around its log ratio."""
    taken: list[float] = []

    def next_of(session: Any) -> float:
        taken.append(gain + 0.04 * (-1) ** len(taken))
        return taken[-1]

    session = SimpleNamespace(alive=True, first_step=lambda: 0.1, kill=lambda: None)
    arena = an_arena(session, next_of, quad_s)
    race = Race(cast(Arena, arena), clock=lambda: 0.0, base=PRESENT, least=0.1)
    race.run(PRESENT, OTHER, TrialRecord(1, OTHER, "screen"), math.inf)
    return len(taken)


@pytest.mark.parametrize(("gain", "quad_s", "quads"), [(0.0, 9.0, 3), (0.0, 0.5, 6), (0.08, 9.0, 12)])
def test_quads_that_take_long_are_spent_on_what_looks_like_a_gain(
    gain: float, quad_s: float, quads: int
) -> None:
    assert raced(gain, quad_s) == quads


def test_a_process_that_was_looked_at_and_fails_is_no_failure_of_a_setting() -> None:
    given = SimpleNamespace(alive=True)
    given.kill = lambda: setattr(given, "alive", False)
    fresh = SimpleNamespace(alive=True, first_step=lambda: 0.1)
    arena = an_arena(fresh, quads_of=lambda session: failing("user_error") if session is given else 0.3)
    race = Race(cast(Arena, arena), clock=lambda: 0.0, base=PRESENT, least=0.1)
    race.adopt(PRESENT, cast(Any, given))
    assert race.run(PRESENT, OTHER, TrialRecord(1, OTHER, "screen"), math.inf).estimate == pytest.approx(0.3)
    assert not given.alive


def test_a_setting_that_fails_in_a_fresh_process_has_failed() -> None:
    fresh = SimpleNamespace(alive=True, first_step=lambda: 0.1, kill=lambda: None)
    arena = an_arena(fresh, quads_of=lambda session: failing("user_error"))
    race = Race(cast(Arena, arena), clock=lambda: 0.0, base=PRESENT, least=0.1)
    with pytest.raises(TrialFailed, match="All arrays"):
        race.run(PRESENT, OTHER, TrialRecord(1, OTHER, "screen"), math.inf)


def failing(cause: Cause) -> float:
    raise TrialFailed(Failure(cause, "ValueError: All arrays must be of the same length"))
