import gc
import weakref
from collections.abc import Iterator

import pytest
import torch
from builders import a_profile, a_run
from small_training import losses_of

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import RunFacts
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.gc_freeze import EVERY, GcFreeze

SGD = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])


class Node:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def collector_kept() -> Iterator[None]:
    """The collector searches what the test itself makes: all that the session holds takes it seconds."""
    gc.freeze()
    yield
    gc.enable()


def set_to(value: str) -> Run:
    run = a_run(gc_freeze=GcFreeze())
    run.configure({"gc_freeze": value})
    run.process()
    return run


def update(run: Run, times: int = 1) -> None:
    for _ in range(times):
        with run.step(SGD):
            pass


@pytest.mark.parametrize("value", ["freeze", "manual"])
def test_the_losses_stay_the_same_bit_by_bit(value: str) -> None:
    run = set_to(value)
    assert losses_of(run) == losses_of()
    assert run.applied == {"gc_freeze"}


@pytest.mark.parametrize(("value", "collects_by_itself"), [("freeze", True), ("manual", False)])
def test_what_is_alive_at_the_first_update_is_set_aside(value: str, collects_by_itself: bool) -> None:
    run = set_to(value)
    before = gc.get_freeze_count()
    alive = [Node() for _ in range(1000)]
    update(run)
    assert gc.get_freeze_count() >= before + len(alive)
    assert gc.isenabled() is collects_by_itself


def test_garbage_of_the_first_steps_is_not_kept_for_ever() -> None:
    run = set_to("freeze")
    garbage = weakref.ref(Node())
    update(run)
    assert garbage() is None


def test_by_hand_garbage_is_collected_after_fifty_updates() -> None:
    run = set_to("manual")
    update(run)
    garbage = weakref.ref(Node())
    update(run, EVERY - 1)
    assert garbage() is not None
    update(run)
    assert garbage() is None


@pytest.mark.parametrize("value", ["freeze", "manual"])
def test_a_live_switch_comes_back_to_the_collector_as_it_was(value: str) -> None:
    before = gc.get_freeze_count()
    run = set_to(value)
    update(run)
    run.configure({})
    assert gc.isenabled()
    assert gc.get_freeze_count() <= before


def test_a_live_switch_between_both_values_takes_effect() -> None:
    run = set_to("manual")
    update(run)
    run.configure({"gc_freeze": "freeze"})
    assert gc.get_freeze_count() == 0
    gc.freeze()
    run.process()
    alive, before = [Node() for _ in range(1000)], gc.get_freeze_count()
    update(run)
    assert gc.isenabled() and gc.get_freeze_count() >= before + len(alive)


def test_a_program_that_has_switched_the_collector_off_is_left_alone() -> None:
    run = set_to("freeze")
    gc.disable()
    update(run)
    assert "switched the garbage collector off itself" in run.refused["gc_freeze"]


def test_a_program_that_freezes_itself_is_left_alone() -> None:
    run = set_to("manual")
    gc.freeze()
    update(run)
    assert "calls gc.freeze itself" in run.refused["gc_freeze"]
    assert gc.isenabled()


def test_it_is_offered_where_pauses_were_seen_or_nothing_is_known() -> None:
    paused = a_profile(run=RunFacts(wall_s=2.0, gc_s=0.1, gc_collections=7))
    assert GcFreeze().choices(paused) == ["off", "freeze", "manual"]
    assert GcFreeze().choices(a_profile()) == ["off", "freeze", "manual"]


def test_without_pauses_there_is_nothing_to_save() -> None:
    with pytest.raises(Refused, match="made no pause"):
        GcFreeze().choices(a_profile(run=RunFacts(wall_s=2.0)))


def test_what_the_user_writes_runs() -> None:
    before = gc.get_freeze_count()
    exec(GcFreeze().change("manual").snippet, {"loader": range(2)})
    assert not gc.isenabled() and gc.get_freeze_count() > before
