from typing import Any

import pytest
import torch
from builders import a_gpu_profile, a_profile, a_run

from advisor.profiles.facts.profile import MemoryUse, Profile
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.saved_tensor_offload import SavedTensorOffload


def a_full_gpu(share: float, **facts: Any) -> Profile:
    memory = MemoryUse(
        host_peak_bytes=2**30, device_peak_bytes=int(share * 2**30), device_total_bytes=2**30, **facts
    )
    return a_gpu_profile(memory=memory)


def test_a_gpu_whose_memory_is_nearly_full_is_offered_it() -> None:
    assert SavedTensorOffload().choices(a_full_gpu(0.95)) == ["off", "on"]


def test_an_allocator_that_ran_out_of_memory_counts_as_full() -> None:
    assert SavedTensorOffload().choices(a_full_gpu(0.8, allocation_retries=2)) == ["off", "on"]


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(), "in host memory already"),
        (a_full_gpu(0.5), "a step uses 50 % of device memory"),
        (a_gpu_profile(), "is not known"),
    ],
)
def test_elsewhere_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        SavedTensorOffload().choices(profile)


def test_a_named_value_does_not_ask_whether_memory_is_short() -> None:
    SavedTensorOffload().check("on", a_full_gpu(0.5))


def test_a_model_that_turns_out_to_be_on_the_cpu_is_refused() -> None:
    run = a_run(saved_tensor_offload=SavedTensorOffload())
    run.configure({"saved_tensor_offload": "on"})
    with run.forward(torch.nn.Linear(2, 2)):
        pass
    assert "on the CPU" in run.refused["saved_tensor_offload"]


def test_within_the_forward_saved_tensors_are_packed_for_the_host() -> None:
    root = torch.nn.Linear(2, 2, device="meta")  # stands for an accelerator
    run = a_run(saved_tensor_offload=SavedTensorOffload())
    run.configure({"saved_tensor_offload": "on"})
    assert isinstance(run.forward(root), torch.autograd.graph.save_on_cpu)
    assert run.unanswered() == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_activations_leave_the_device_and_gradients_stay_the_same() -> None:
    torch.manual_seed(0)
    root = torch.nn.Sequential(
        *(torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Tanh()) for _ in range(8))
    )
    root.cuda()
    inputs = torch.randn(4096, 256, device="cuda")
    held, gradients = [], []
    for value in ("off", "on"):
        run = a_run(saved_tensor_offload=SavedTensorOffload())
        run.configure({"saved_tensor_offload": value})
        before = torch.cuda.memory_allocated()
        with run.forward(root):
            output = root(inputs)
        held.append(torch.cuda.memory_allocated() - before)
        root.zero_grad()
        output.square().sum().backward()
        gradients.append(
            [parameter.grad.clone() for parameter in root.parameters() if parameter.grad is not None]
        )
        del output
    assert held[1] < held[0] / 2
    for ours, own in zip(*gradients, strict=True):
        assert torch.equal(ours, own)
