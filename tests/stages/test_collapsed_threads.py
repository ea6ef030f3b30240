"""Threads that collapse beside other load: seen in slots, and where they may be fewer."""

from typing import Any

import pytest
from builders import a_machine, a_rich_profile

from advisor.base.settings import Settings, TargetRequest
from advisor.profiles.facts.profile import RunFacts, StepPhases
from advisor.stages.thread_collapse import (
    collapsed,
    contended,
    may_be_fewer,
    room_beside,
    waited,
    with_threads,
)
from advisor.tuners.trial.messages import Slot


def settings(**options: Any) -> Settings:
    return Settings(target=TargetRequest(kind="module", name="train"), **options)


@pytest.mark.parametrize(
    ("cpu_s", "other_cpu_s", "threads", "waits", "expected"),
    [
        (1.0, 1.0, 2, 0.0, True),
        (1.0, 0.0, 2, 0.0, False),
        (1.0, 1.0, 1, 0.0, False),
        (1.5, 1.0, 2, 0.0, False),
        (1.0, 1.0, 2, 0.5, False),
        (0.5, 1.0, 2, 0.5, True),
    ],
    ids=[
        "spinning", "a quiet machine", "one thread", "room beside the load", "busy whenever there is data",
        "spinning whenever there is data",
    ],
)  # fmt: skip
def test_threads_collapse_where_they_compute_with_few_cpus_beside_other_load(
    cpu_s: float, other_cpu_s: float, threads: int, waits: float, expected: bool
) -> None:
    slots = [Slot((0.5, 0.5), cpu_s=cpu_s, other_cpu_s=other_cpu_s)] * 2
    assert collapsed(slots, threads, waits) is expected
    assert contended(slots) is (other_cpu_s > 0)


def test_the_wait_for_data_is_a_share_of_a_step() -> None:
    assert waited(StepPhases(step_ms=20.0, steps=5, input_wait_ms=5.0)) == 0.25
    assert waited(None) == 0.0


@pytest.mark.parametrize(
    ("other_cpu_s", "threads", "cpus", "room"),
    [(1.0, 2, 2, 1), (1.05, 8, 8, 7), (2.1, 8, 8, 6), (9.0, 8, 8, 1), (0.2, 4, 4, 3), (1.0, 4, 16, 3)],
)
def test_as_many_threads_are_left_as_have_a_cpu_of_their_own(
    other_cpu_s: float, threads: int, cpus: int, room: int
) -> None:
    assert room_beside([Slot((0.5, 0.5), other_cpu_s=other_cpu_s)], threads, cpus) == room


@pytest.mark.parametrize(
    ("options", "startup_s", "expected"),
    [
        ({}, 5.0, True),
        ({"fixed": {"num_threads": 2}}, 5.0, False),
        ({"knobs": {"num_threads": None}}, 5.0, False),
        ({"knobs": {"num_workers": None}}, 5.0, True),
        ({"ranks": (2,)}, 5.0, False),
        ({"on": "ray"}, 5.0, False),
        ({}, 61.0, False),
    ],
    ids=["free", "fixed", "to be tried", "others to be tried", "ranks", "several machines", "a slow start"],
)
def test_threads_may_be_fewer_where_nobody_else_decides_it(
    options: dict[str, Any], startup_s: float, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    profile = a_rich_profile(a_machine(cpus_allowed=2, physical_cores=2), run=RunFacts(num_threads=2))
    assert may_be_fewer(settings(**options), profile, startup_s) is expected
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert not may_be_fewer(settings(**options), profile, startup_s)


def test_what_else_is_fixed_stays() -> None:
    asked = settings(fixed={"num_workers": 2})
    assert with_threads(asked, 1).fixed == {"num_workers": 2, "num_threads": 1}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("tune", "train.py", "--", "--fix"), ("tune", "--fix", "num_threads=1", "train.py", "--", "--fix")),
        (("tune", "(in Python)"), ("tune", "(in Python)")),
        ((), ()),
    ],
)
def test_the_command_of_a_result_measures_as_it_was_measured(
    command: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    asked = settings(command=command)
    assert with_threads(asked, 1).command == expected
    assert with_threads(with_threads(asked, 1), 1) == with_threads(asked, 1)
