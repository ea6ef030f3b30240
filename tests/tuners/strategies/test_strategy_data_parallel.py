import pytest
import torch
from builders import A_GPU, a_gpu_profile, a_machine, a_rich_profile, a_root
from torch import nn

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused
from advisor.tuners.place import HERE, Place
from advisor.tuners.strategies.data_parallel import DataParallel

TWO = a_machine(cuda=True, gpus=(A_GPU, A_GPU))


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_rich_profile(), "needs two GPUs, and here are 0"),
        (a_gpu_profile(), "needs two GPUs, and here is 1"),
        (a_rich_profile(TWO), "trains on the CPU"),
        (a_gpu_profile(TWO, roots=(a_root(parallel="DataParallel"),)), "uses DataParallel itself"),
        (a_gpu_profile(TWO, target_kind="script"), "a script"),
    ],
)
def test_elsewhere_it_is_refused(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        DataParallel().check(profile, 2)


def test_two_gpus_are_enough() -> None:
    DataParallel().check(a_gpu_profile(TWO), 2)


def test_it_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HERE, "place", Place(rank=0, workers=2))
    with pytest.raises(Refused, match="ranks=1"):
        DataParallel().wrap(nn.Linear(1, 1))


def test_without_two_gpus_the_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(Refused, match="needs two GPUs, and here is 1"):
        DataParallel().wrap(nn.Linear(1, 1))
    assert DataParallel().report() == {}


def test_a_model_on_the_cpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(Refused, match="whole model on one GPU"):
        DataParallel().wrap(nn.Linear(1, 1))


def test_a_loss_for_each_gpu_is_refused_and_other_errors_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy, model = DataParallel(), nn.Linear(1, 1)
    monkeypatch.setattr(strategy, "_devices", [0, 1])

    def said(text: str) -> None:
        def loss(called: nn.Module, batch: object) -> torch.Tensor:
            raise ValueError(text)

        strategy.forward_backward(loss, model, None, 1)

    with pytest.raises(Refused, match="one for each GPU"):
        said("step must return one finite scalar that needs grad, got tensor(shape [2])")
    with pytest.raises(ValueError, match="other"):
        said("other")


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_it_gives_the_gradients_of_one_gpu() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1, device="cuda:0")
    inputs = torch.randn(6, 4, device="cuda:0")
    model(inputs).pow(2).mean().backward()
    assert model.weight.grad is not None
    expected = model.weight.grad.clone()
    model.zero_grad()
    strategy = DataParallel()
    wrapped = strategy.wrap(model)
    strategy.forward_backward(lambda called, batch: called(batch).pow(2).mean(), wrapped, inputs, 1)
    torch.testing.assert_close(model.weight.grad, expected)
    others = torch.cuda.device_count() - 1
    assert strategy.report() == {"bytes_per_step": others * 2 * 4 * 5, "devices": others + 1}
