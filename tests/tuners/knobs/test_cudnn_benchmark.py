from collections.abc import Iterator

import pytest
import torch
from builders import a_gpu_profile, a_loader, a_rich_profile, a_root, a_run

from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.cudnn_benchmark import CudnnBenchmark


@pytest.fixture
def flags_kept() -> Iterator[None]:
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.deterministic
    cudnn.benchmark = False
    yield
    cudnn.benchmark, cudnn.deterministic = before


def an_update() -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])


@pytest.mark.parametrize(
    ("benchmark", "choices"), [(False, ["off", "on"]), (None, ["off", "on"]), (True, ["on", "off"])]
)
def test_convolutions_of_one_shape_on_a_gpu_are_offered_the_other_setting(
    benchmark: bool | None, choices: list[str]
) -> None:
    assert CudnnBenchmark().choices(a_gpu_profile(run=RunFacts(cudnn_benchmark=benchmark))) == choices


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_rich_profile(), "on the CPU"),
        (a_gpu_profile(roots=(a_root(),)), "no convolutions"),
        (a_gpu_profile(roots=()), "no convolutions"),
        (a_gpu_profile(run=RunFacts(deterministic=True)), "asks for determinism"),
        (a_gpu_profile(loader=a_loader(shapes_vary=True)), "shapes of batches vary"),
    ],
)
def test_elsewhere_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        CudnnBenchmark().choices(profile)


def test_switching_it_off_helps_where_shapes_vary() -> None:
    varying = a_gpu_profile(loader=a_loader(shapes_vary=True), run=RunFacts(cudnn_benchmark=True))
    assert CudnnBenchmark().choices(varying) == ["on", "off"]


def test_a_live_switch_changes_torch_and_comes_back(flags_kept: None) -> None:
    run = a_run(cudnn_benchmark=CudnnBenchmark())
    run.process()
    run.configure({"cudnn_benchmark": "on"})
    assert torch.backends.cudnn.benchmark
    assert run.unanswered() == []
    run.configure({})
    assert not torch.backends.cudnn.benchmark


def test_a_program_that_sets_its_own_is_overruled_at_its_first_update(flags_kept: None) -> None:
    run = a_run(cudnn_benchmark=CudnnBenchmark())
    run.configure({"cudnn_benchmark": "on"})
    run.process()
    torch.backends.cudnn.benchmark = False
    run.optimizer(an_update())
    assert torch.backends.cudnn.benchmark


def test_a_program_that_asks_for_determinism_later_gets_it(flags_kept: None) -> None:
    run = a_run(cudnn_benchmark=CudnnBenchmark())
    run.configure({"cudnn_benchmark": "on"})
    run.process()
    torch.backends.cudnn.deterministic = True
    run.optimizer(an_update())
    assert "determinism" in run.refused["cudnn_benchmark"]
    assert not torch.backends.cudnn.benchmark
