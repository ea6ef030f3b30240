"""Runs beside other programs, replayed: a gain is confirmed all the same, and other load ends no run."""

import os
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import a_machine, a_rich_profile
from replayed_program import Effect, Program, where
from replaying import Replay, replayed

from advisor.profiles.facts.profile import RunFacts
from advisor.stages import thread_collapse
from advisor.stages.all_failed import NOT_TOLD
from advisor.tuners.knob import Value

pytestmark = pytest.mark.usefixtures("own_folder", "quick_proposals")

Load = Callable[[float], float]


def quiet(now: float) -> float:
    return 0.0


def bursts(now: float) -> float:
    """A CPU for one second of every three."""
    return 1.0 if now % 3.0 < 1.0 else 0.0


def steady(now: float) -> float:
    return 1.0


def half_minutes(now: float) -> float:
    return 1.0 if now % 60.0 < 30.0 else 0.0


def erratic(now: float) -> float:
    """Nothing to two CPUs, anew every 0.7 s: a step takes up to three times as long."""
    return random.Random(int(now / 0.7)).choice([0.0, 0.0, 0.5, 1.0, 2.0])


KNOBS: dict[str, tuple[Value, Value]] = {  # live, of a process, of the loader
    "placebo": ("off", "on"),
    "malloc": ("libc", "libc-tuned"),
    "num_workers": (0, 2),
}


def tuned(load: Load, name: str, gain: float, folder: Path) -> Replay:
    present, changed = KNOBS[name]
    effects = [Effect(where(**{name: changed}), step=1 / gain)]
    program = Program(effects, step_s=0.03, startup_s=3.0, load=load, without={"loader": 0.8})
    return replayed(program, folder, budget_s=300.0, knobs={name: [present, changed]})


@pytest.mark.parametrize("name", KNOBS)
@pytest.mark.parametrize("load", [bursts, steady, half_minutes, erratic])
def test_without_a_gain_other_load_ends_in_keep(load: Load, name: str, tmp_path: Path) -> None:
    run = tuned(load, name, 1.0, tmp_path)
    assert run.result.recommendation.verdict == "keep"
    reason = run.result.recommendation.reason  # a nominee of luck is found out by fresh processes
    assert reason == "no change was worth confirming" or "no clear difference" in reason
    assert run.result.noise is not None and run.result.noise.smallest_detectable > 0  # could have been seen
    assert run.launcher.now < 1.2 * 300.0


@pytest.mark.parametrize("name", KNOBS)
@pytest.mark.parametrize("load", [bursts, steady, half_minutes])
def test_a_gain_of_half_is_confirmed_within_twice_the_time_of_a_quiet_machine(
    load: Load, name: str, tmp_path: Path
) -> None:
    busy, alone = (tuned(each, name, 1.5, tmp_path / each.__name__) for each in (load, quiet))
    assert busy.result.recommendation.verdict == alone.result.recommendation.verdict == "change"
    assert busy.launcher.now < 2.0 * alone.launcher.now


@pytest.mark.parametrize("name", KNOBS)
def test_a_gain_that_much_more_load_hides_is_confirmed_or_told_as_it_was_seen(
    name: str, tmp_path: Path
) -> None:
    run = tuned(erratic, name, 1.5, tmp_path)
    found = run.result.recommendation
    seen = re.search(rf"{name}=\S+ [\d.]+x \([\d.]+ to [\d.]+\)", found.reason)
    assert found.config[name] == KNOBS[name][1] if found.verdict == "change" else seen
    assert run.launcher.now < 1.2 * 300.0


@pytest.fixture
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def of_two_threads(*effects: Effect, load: Load = steady) -> Program:
    machine = a_machine(cpus_allowed=2, physical_cores=2, torch_default_threads=2)
    profile = a_rich_profile(machine, run=RunFacts(num_threads=2, samples_per_step=32.0, steps_seen=20))
    return Program(effects, step_s=0.03, startup_s=3.0, load=load, profile=profile, without={"loader": 0.8})


SPINNING = Effect(lambda config: config.get("num_threads") != 1, step=5.0)
FASTER = Effect(where(malloc="libc-tuned"), step=1 / 1.5)
TRIED: dict[str, list[Value] | None] = {"malloc": ["libc", "libc-tuned"]}


@pytest.mark.usefixtures("two_cpus")
def test_threads_that_collapse_beside_other_load_end_no_run(tmp_path: Path) -> None:
    run = replayed(of_two_threads(), tmp_path, budget_s=120.0, knobs={"num_threads": [2, 1]})
    assert [trial.cause for trial in run.result.trials[1:]] == ["interference"]
    assert run.result.recommendation.verdict == "keep"
    assert run.result.recommendation.reason == NOT_TOLD


@pytest.mark.usefixtures("two_cpus")
def test_where_threads_collapse_the_unchanged_program_and_all_others_have_fewer(tmp_path: Path) -> None:
    run = replayed(of_two_threads(SPINNING, FASTER), tmp_path, knobs=TRIED)
    assert run.result.recommendation.verdict == "change"
    assert all(config["num_threads"] == 1 for config in run.launcher.configs[1:])
    ratio = run.result.recommendation.speedup
    assert 1.35 < ratio.estimate < 1.65  # not that over threads that spin
    (told,) = [text for text in run.result.warnings if "computes with 1 thread" in text]
    spinning, alone = map(int, re.findall(r"\((\d+) ms", told))
    assert 280 < spinning < 320 and 55 < alone < 65  # beside the load twice the time
    assert run.result.noise is not None
    assert not run.result.noise.thread_collapse and run.result.noise.contended


@pytest.mark.usefixtures("two_cpus")
@pytest.mark.parametrize("load", [quiet, steady])
@pytest.mark.parametrize("steps", range(80, 160, 20))
def test_a_program_that_ends_while_it_is_measured_is_measured_all_the_same(
    steps: int, load: Load, tmp_path: Path
) -> None:
    program = replace(of_two_threads(SPINNING, FASTER, load=load), steps=steps, noise=0.1)
    run = replayed(program, tmp_path, knobs=TRIED)
    assert run.result.recommendation.verdict in ("change", "keep")


@pytest.mark.usefixtures("two_cpus")
def test_on_a_quiet_machine_the_program_has_its_own_threads(tmp_path: Path) -> None:
    run = replayed(of_two_threads(FASTER, load=quiet), tmp_path, knobs=TRIED)
    assert all(config.get("num_threads", 2) == 2 for config in run.launcher.configs)
    assert not [text for text in run.result.warnings if "thread" in text]


@pytest.mark.usefixtures("two_cpus")
def test_a_program_that_decides_its_threads_is_measured_as_it_is(tmp_path: Path) -> None:
    declines = Effect(where(num_threads=1), refuses=("num_threads", "it sets them itself"))
    run = replayed(of_two_threads(declines, FASTER), tmp_path, knobs=TRIED)
    assert run.result.noise is not None and run.result.noise.thread_collapse
    assert run.result.recommendation.verdict == "change"


@pytest.mark.usefixtures("two_cpus")
@pytest.mark.parametrize(("first", "later"), [(steady, quiet), (quiet, steady)])
def test_a_resumed_study_goes_on_as_it_began(first: Load, later: Load, tmp_path: Path) -> None:
    options: dict[str, Any] = {"storage": f"sqlite:///{tmp_path}/studies.db", "study": "one", "knobs": TRIED}
    replayed(of_two_threads(SPINNING, FASTER, load=first), tmp_path, **options)
    again = replayed(of_two_threads(SPINNING, FASTER, load=later), tmp_path, resume=True, **options)
    assert {config.get("num_threads") == 1 for config in again.launcher.configs} == {first is steady}
    assert (thread_collapse.told_again(1) in again.result.warnings) is (first is steady)
