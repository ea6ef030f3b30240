"""A search on paper uses what is left of its budget for what can still gain, and says why it ends."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from builders import a_machine, a_rich_profile
from replayed_program import Effect, Program, where
from replaying import Replay, replayed

from advisor.profiles.facts.observed import MemoryUse
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Value

pytestmark = pytest.mark.usefixtures("own_folder", "quick_proposals")

LAYOUT, COMPILED = (
    Effect(where(channels_last="on"), step=1 / 1.06),
    Effect(where(execution="compile"), step=1 / 1.15),
)
THREADS = Effect(where(num_threads=1), step=1.7)
CONVOLUTIONS = {"aten::mkldnn_convolution": 0.35, "aten::convolution_backward": 0.4, "aten::add": 0.25}


def images() -> Profile:
    """A classifier of images whose items cost nothing, on two CPUs without bf16 units."""
    machine = a_machine(cpus_allowed=2, physical_cores=2, torch_default_threads=2, bf16_speedup=0.5)
    profile = a_rich_profile(machine)
    assert profile.run is not None and profile.loader is not None
    loader = replace(profile.loader, dataset_length=2048, item_ms=0.01)
    return replace(profile, run=replace(profile.run, num_threads=2), loader=loader)


def computing(config: Mapping[str, Value]) -> Mapping[str, float]:
    return {"input_wait": 0.002, "forward": 0.33, "backward": 0.65, "optimizer": 0.01}


FAULTS = MemoryUse(0, minor_faults_per_step=60_000.0, system_share=0.1)  # they speak for another allocator


def resnet(
    effects: Sequence[Effect], folder: Path, *, noise: float, memory: MemoryUse | None = None
) -> Replay:
    """Steps of 0.9 s behind a start of 2 s, in the default budget."""
    program = Program(
        effects, step_s=0.9, startup_s=2.0, compile_s=60.0, noise=noise, between=0.01, profile=images(),
        parts=computing, ops=CONVOLUTIONS, memory=memory or MemoryUse(0),
        without={"loader": 0.998, "optimizer": 0.99},
    )  # fmt: skip
    return replayed(program, folder, budget_s=600.0)


@pytest.mark.parametrize("noise", [0.03, 0.06])
def test_compiling_is_tried_and_confirmed_where_a_layout_alone_could_not_be(
    noise: float, tmp_path: Path
) -> None:
    run = resnet([LAYOUT, COMPILED, THREADS], tmp_path, noise=noise)
    found = run.result.recommendation
    assert found.verdict == "change" and found.config["execution"] == "compile"
    assert run.launcher.now <= 1.2 * 600.0


@pytest.mark.parametrize("noise", [0.03, 0.06])
def test_so_it_is_where_page_faults_speak_for_an_allocator_that_gives_nothing(
    noise: float, tmp_path: Path
) -> None:
    run = resnet([LAYOUT, COMPILED, THREADS], tmp_path, noise=noise, memory=FAULTS)
    found = run.result.recommendation
    assert found.verdict == "change" and found.config["execution"] == "compile"
    assert found.config["malloc"] == "libc" and run.launcher.now <= 1.2 * 600.0
    (reason,) = (each.reason for each in run.result.not_tried if each.knob == "flush_denormal")
    assert "no denormal numbers were met" in reason


def test_a_gain_that_cannot_be_confirmed_does_not_end_the_search(tmp_path: Path) -> None:
    run = resnet([LAYOUT, THREADS], tmp_path, noise=0.1)
    found = run.result.recommendation
    assert {"channels_last", "execution", "malloc"} <= {
        name for trial in run.result.trials for name, value in trial.config.items()
        if value != run.result.baseline.config[name]
    } | {each.knob for each in run.result.not_tried}  # fmt: skip
    assert found.verdict == "keep" and found.reason
    assert 0.85 * 600.0 <= run.launcher.now <= 1.2 * 600.0
