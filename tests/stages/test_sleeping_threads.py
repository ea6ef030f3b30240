"""Threads that collapse beside other load: seen in slots, and where they may be told to sleep."""

from typing import Any

import pytest
from builders import a_rich_profile

from advisor.base.settings import Settings, TargetRequest
from advisor.profiles.facts.profile import StepPhases
from advisor.stages.thread_collapse import collapsed, contended, may_sleep, sleeps, waited, with_sleep
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
    ("options", "startup_s", "expected"),
    [
        ({}, 5.0, True),
        ({"fixed": {"omp_wait_policy": "unset"}}, 5.0, False),
        ({"knobs": {"omp_wait_policy": None}}, 5.0, False),
        ({"knobs": {"num_workers": None}}, 5.0, True),
        ({"on": "ray"}, 5.0, False),
        ({}, 61.0, False),
    ],
    ids=["free", "fixed", "to be tried", "others to be tried", "several machines", "a slow start"],
)
def test_threads_may_sleep_where_nobody_else_decides_it(
    options: dict[str, Any], startup_s: float, expected: bool
) -> None:
    assert may_sleep(settings(**options), a_rich_profile(), startup_s) is expected


@pytest.mark.parametrize("variable", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT"])
def test_what_the_environment_decides_stays(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "100")
    assert not may_sleep(settings(), a_rich_profile(), 5.0)


def test_settings_that_have_threads_sleep_keep_what_is_fixed() -> None:
    asked = settings(fixed={"num_workers": 2})
    assert with_sleep(asked).fixed == {"num_workers": 2, "omp_wait_policy": "passive"}
    assert sleeps(with_sleep(asked)) and not sleeps(asked)
