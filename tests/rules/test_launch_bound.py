from dataclasses import replace
from typing import Any

import pytest
from builders import a_device, a_gpu_profile, a_profile, a_rich_profile, a_served_profile, a_window, an_op

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.rates import Rates
from advisor.rules.launch_bound import LaunchBound


def on_gpu(**device: Any) -> Profile:
    return a_gpu_profile(window=a_window(device=a_device(**device)))


@pytest.mark.parametrize(
    "device",
    [
        {"mean_kernel_us": 6.0, "launch_share": 0.25},
        {"short_kernels": 0.7, "launch_share": 0.25},
        {"launch_share": 0.25},
    ],
    ids=["short on average", "shorter than their launch", "waiting for launches"],
)
def test_a_device_that_waits_for_launches_is_reported(device: dict[str, float]) -> None:
    finding = LaunchBound().check(on_gpu(**device))
    assert finding.state is State.OPPORTUNITY and finding.kind is Kind.HEADROOM
    assert finding.severity is Severity.HIGH
    assert finding.ceiling is not None
    assert (finding.ceiling.share, finding.ceiling.source) == (0.25, "timeline")
    assert 'mode="reduce-overhead"' in finding.advice and "more memory" in finding.advice
    assert finding.title == "25 % of each step leaves the device waiting for launches"


def test_a_full_queue_means_that_the_host_is_ahead() -> None:
    finding = LaunchBound().check(on_gpu(mean_kernel_us=6.0, launch_share=0.25, full_queue=True))
    assert finding.state is State.PASSED


def test_short_kernels_that_nothing_waits_for_pass() -> None:
    finding = LaunchBound().check(on_gpu(mean_kernel_us=6.0, launch_share=0.01))
    assert finding.state is State.PASSED and finding.title.startswith("1.0 %")


def test_long_kernels_just_below_the_threshold_pass() -> None:
    assert LaunchBound().check(on_gpu(launch_share=0.029)).state is State.PASSED


def on_cpu(dispatches: float, **facts: Any) -> Profile:
    window = a_window(dispatches=dispatches, **facts)
    return a_rich_profile(window=window, rates=Rates(dispatch_us=4.0))


def test_a_cpu_step_of_calls_is_reported_with_a_modelled_ceiling() -> None:
    finding = LaunchBound().check(on_cpu(1000))
    assert finding.state is State.OPPORTUNITY and finding.severity is Severity.MEDIUM
    assert finding.ceiling is not None
    assert (finding.ceiling.share, finding.ceiling.source) == (0.4, "model")
    assert finding.title == "40 % of each step goes to calling 1000 operators"
    assert "batch_size" in finding.advice and "convergence" in finding.advice


def test_updates_one_by_one_are_named_first() -> None:
    window = a_window(dispatches=1000, single_tensor_updates=True)
    phases = {"forward": 3.0, "backward": 4.0, "optimizer": 3.0}
    much = a_profile(window=window, rates=Rates(dispatch_us=4.0), phases_ms=phases)
    assert "fused=True" in LaunchBound().check(much).advice
    little = on_cpu(1000, single_tensor_updates=True)  # of which the calls of the update are a quarter
    assert "fused=True" not in LaunchBound().check(little).advice


def test_a_cpu_step_with_few_calls_passes() -> None:
    finding = LaunchBound().check(on_cpu(740))
    assert finding.state is State.PASSED and finding.title.startswith("30 %")


def test_without_its_facts_it_abstains() -> None:
    assert LaunchBound().check(a_rich_profile(window=a_window())).state is State.NOT_APPLICABLE
    assert LaunchBound().check(a_gpu_profile(window=a_window())).state is State.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("device", "fires"),
    [
        ({"mean_kernel_us": 9.9}, True),
        ({"mean_kernel_us": 10.1}, False),
        ({"short_kernels": 0.51}, True),
        ({"short_kernels": 0.49}, False),
    ],
)
def test_short_kernels_make_a_shorter_wait_worth_telling(device: dict[str, float], fires: bool) -> None:
    assert LaunchBound().check(on_gpu(launch_share=0.025, **device)).fired is fires


def test_waits_and_calls_just_above_their_thresholds_are_reported() -> None:
    assert LaunchBound().check(on_gpu(launch_share=0.031)).fired
    assert LaunchBound().check(on_cpu(760)).fired


def test_requests_are_told_nothing_of_convergence() -> None:
    window = a_window(an_op("aten::add", 5.0), dispatches=1000.0)
    profile = replace(a_served_profile(), window=window, rates=Rates(dispatch_us=5.0))
    finding = LaunchBound().check(profile)
    assert finding.fired and "torch.jit.freeze" in finding.advice and "convergence" not in finding.advice


def test_the_line_that_calls_most_operators_is_where_to_begin() -> None:
    line = Location("net.py", 8, "forward")
    ops = (
        an_op("aten::select", 1.0, calls=700.0, location=line),
        an_op("aten::mm", 1.0, calls=200.0, location=Location("net.py", 20)),
        an_op("aten::add_", 1.0, calls=900.0, location=Location("train.py", 5), phase="optimizer"),
    )
    finding = LaunchBound().check(on_cpu(1000, ops=ops, single_tensor_updates=True))
    assert finding.location == line and finding.advice.startswith("Have net.py:8 do what it does in fewer")
    spread = LaunchBound().check(on_cpu(2000, ops=ops, single_tensor_updates=True))
    assert spread.location is None and "net.py" not in spread.advice
