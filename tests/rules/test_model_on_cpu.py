from typing import Any

import pytest
from builders import A_GPU, a_gpu_profile, a_machine, a_profile, a_root, a_window

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile
from advisor.rules.model_on_cpu import ModelOnCpu

HERE = Location("net.py", 7)


def beside_a_gpu(machine: dict[str, Any] | None = None, **facts: Any) -> Profile:
    offered = a_machine(**{"gpus": (A_GPU,), "cuda": True, **(machine or {})})
    computing = {"forward": 4.0, "backward": 5.0}
    return a_profile(offered, **{"phases_ms": computing, "roots": (a_root(location=HERE),), **facts})


def test_compute_less_launches_is_the_ceiling_and_no_more_than_medium() -> None:
    finding = ModelOnCpu().check(beside_a_gpu(window=a_window(dispatches=100)))
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.8)
    assert finding.ceiling.source == "model"
    assert (finding.state, finding.severity) == (State.OPPORTUNITY, Severity.MEDIUM)
    assert finding.title == "90 % of each step computes on the CPU while NVIDIA H200 is idle"
    assert finding.location == HERE and '`model.to("cuda")`' in finding.advice


def test_many_tiny_operators_would_gain_nothing() -> None:
    finding = ModelOnCpu().check(beside_a_gpu(window=a_window(dispatches=1000)))
    assert finding.state is State.PASSED


def test_without_a_recorded_window_no_ceiling_is_claimed() -> None:
    finding = ModelOnCpu().check(beside_a_gpu())
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.MEDIUM)


def test_a_very_small_model_is_right_on_the_cpu() -> None:
    finding = ModelOnCpu().check(beside_a_gpu(phases_ms={"forward": 0.3, "backward": 0.4}))
    assert finding.state is State.PASSED


def test_a_torch_for_the_cpu_only_is_the_cause_that_is_named() -> None:
    finding = ModelOnCpu().check(beside_a_gpu({"cuda": False, "torch": "2.13.0+cpu"}))
    assert finding.state is State.DIAGNOSTIC
    assert "the present build is for the CPU only" in finding.advice


def test_a_hidden_gpu_was_hidden_on_purpose() -> None:
    finding = ModelOnCpu().check(beside_a_gpu({"cuda": False}))
    assert finding.state is State.NOT_APPLICABLE


def test_a_model_on_the_gpu_is_right() -> None:
    finding = ModelOnCpu().check(a_gpu_profile())
    assert finding.state is State.PASSED and "cuda:0" in finding.title


def test_without_accelerator_model_or_steps_nothing_is_said() -> None:
    assert ModelOnCpu().check(beside_a_gpu(roots=())).state is State.NOT_APPLICABLE
    assert ModelOnCpu().check(beside_a_gpu(phases_ms=None)).state is State.NOT_APPLICABLE
