"""A process that goes on after it was measured is there for its own candidate, until anything else starts."""

from pathlib import Path

import pytest
from replayed_program import Effect, Program, where
from replayed_sessions import ReplayingLauncher

from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.ways import BATON, LIVE, WINDOWS
from advisor.tuners.comparing.windows import Window
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.spec import Target

FIRST: dict[str, Value] = {"placebo": "off", "num_workers": 0, "malloc": "libc"}
CHANGED: dict[str, dict[str, Value]] = {
    LIVE: {"placebo": "on"}, BATON: {"malloc": "libc-tuned"}, WINDOWS: {"num_workers": 2},
}  # fmt: skip


def an_arena(folder: Path, *effects: Effect) -> tuple[Arena, ReplayingLauncher]:
    launcher = ReplayingLauncher(Target("module", "train"), folder, program=Program(effects))
    return Arena(launcher, KNOBS, FIRST, step_s=0.02, clock=lambda: launcher.now), launcher


@pytest.mark.parametrize("how", [LIVE, BATON, WINDOWS])
def test_the_process_of_the_candidate_goes_on_alone(how: str, tmp_path: Path) -> None:
    arena, launcher = an_arena(tmp_path)
    second = FIRST | CHANGED[how]
    duel = arena.duel(FIRST, second, how=how, quads=2, hold=True)
    assert len(launcher.live) == 1 and duel.second_outcome is None
    assert arena.held.of(FIRST) is None
    session = arena.held.take(second)
    assert session is launcher.live[0] and session.slot(3, drop=0, config=second).step_s
    session.kill()


@pytest.mark.parametrize("how", [LIVE, BATON, WINDOWS])
def test_without_asking_for_it_nothing_goes_on(how: str, tmp_path: Path) -> None:
    arena, launcher = an_arena(tmp_path)
    arena.duel(FIRST, FIRST | CHANGED[how], how=how, quads=2)
    assert not launcher.live


def test_what_is_held_ends_before_another_process_starts(tmp_path: Path) -> None:
    arena, launcher = an_arena(tmp_path)
    second = FIRST | CHANGED[BATON]
    arena.duel(FIRST, second, how=BATON, quads=2, hold=True)
    other = arena.start(FIRST, 1)
    assert launcher.live == [other] and arena.held.of(second) is None
    other.kill()


def test_a_duel_that_fails_leaves_nothing_that_could_go_on(tmp_path: Path) -> None:
    failure = Failure("user_error", "no")
    arena, launcher = an_arena(tmp_path, Effect(where(malloc="libc"), fails=failure, after=60))
    with pytest.raises(TrialFailed):
        arena.duel(FIRST, FIRST | CHANGED[BATON], how=BATON, quads=12, hold=True)
    assert not launcher.live


def test_where_another_process_needs_its_room_it_ends_with_an_outcome(tmp_path: Path) -> None:
    arena, launcher = an_arena(tmp_path)
    second = FIRST | CHANGED[WINDOWS]
    duel = arena.duel(FIRST, second, how=WINDOWS, quads=1, hold=True)
    window = Window(duel.second[0], duel.second_message)
    ended = arena.held.make_room(window)
    assert ended.outcome is not None and ended.outcome.losses and ended.slot == window.slot
    assert launcher.live == [] and arena.held.of(second) is None
    assert arena.held.make_room(window) == window, "nothing is held any more"
