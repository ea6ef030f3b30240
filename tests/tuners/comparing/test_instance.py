"""What an instance asks for travels, and so does what it gives: it is the same wherever it is measured."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from replayed_program import Effect, Program
from replayed_sessions import ReplayedSession, ReplayingLauncher

from advisor.tuners.comparing.duel import Arena, Duel
from advisor.tuners.comparing.instance import Instance
from advisor.tuners.comparing.ways import BATON, LIVE
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.spec import Target

OFF: dict[str, Value] = {"gc_freeze": "off"}
ON: dict[str, Value] = {"gc_freeze": "manual"}


class Noting(ReplayingLauncher):
    """Remembers how each process was started beside its configuration."""

    started: list[tuple[Value, dict[str, Any]]]

    def start(
        self, number: int, config: Mapping[str, Value], present: Mapping[str, Value], **options: Any
    ) -> ReplayedSession:
        self.started.append((config["gc_freeze"], {k: v for k, v in options.items() if v is not None}))
        return super().start(number, config, present, **options)


def arena_on_paper(folder: Path, *effects: Effect) -> tuple[Arena, Noting]:
    launcher = Noting(Target("module", "train"), folder, program=Program(effects))
    launcher.started = []
    return Arena(launcher, KNOBS, OFF, step_s=0.1, clock=lambda: launcher.now), launcher


def over_a_wire(message: Any, kind: type) -> Any:
    """As it comes out at the other end of a pipe."""
    line = json.dumps(msgspec.to_builtins(message))
    return msgspec.convert(json.loads(line), kind, strict=False, str_keys=True)


def an_instance(place: int = 0, how: str = BATON) -> Instance:
    return Instance(place, OFF, ON, how, 2, number=7, first_start={"norms": 1}, second_start={"nudge": 2})


@pytest.mark.parametrize("how", [LIVE, BATON])
def test_asked_over_a_wire_it_gives_what_it_gives_here(tmp_path: Path, how: str) -> None:
    asked = an_instance(how=how)
    here = asked.measured(arena_on_paper(tmp_path)[0])
    there = over_a_wire(asked, Instance).measured(arena_on_paper(tmp_path)[0])
    assert len(here.log_ratios) == 2
    assert over_a_wire(there, Duel) == here


@pytest.mark.parametrize(("place", "order"), [(0, ["manual", "off"]), (1, ["off", "manual"])])
def test_its_place_says_who_starts_first_and_each_process_gets_its_own(
    tmp_path: Path, place: int, order: list[str]
) -> None:
    arena, launcher = arena_on_paper(tmp_path)
    an_instance(place).measured(arena)
    own = {"off": {"norms": 1}, "manual": {"nudge": 2}}
    assert launcher.started == [(name, own[name]) for name in order]


def test_nothing_of_it_stays_in_the_arena_when_it_fails(tmp_path: Path) -> None:
    failure = Failure("user_error", "of its own")
    arena, launcher = arena_on_paper(tmp_path, Effect(lambda config: True, fails=failure))
    with pytest.raises(TrialFailed, match="of its own"):
        an_instance().measured(arena)
    launcher.started.clear()
    arena.start(OFF, 0)
    assert launcher.started == [("off", {})]
