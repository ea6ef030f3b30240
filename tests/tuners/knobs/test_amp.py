from typing import Any

import pytest
import torch
from builders import a_gpu_profile, a_machine, a_profile, a_rich_profile, a_root, a_run, an_optimizer
from torch import nn

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.amp import Amp
from advisor.tuners.mechanisms.loss_scaling import LossScaling


class Watched(nn.Linear):
    """Remembers the type in which it computed."""

    computed: torch.dtype

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result = super().forward(inputs)
        self.computed = result.dtype
        return result


def a_run_with(value: str, knob: Amp | None = None) -> Run:
    run = a_run(amp=knob or Amp())
    run.configure({"amp": value})
    return run


def forward(run: Run, root: nn.Module, *inputs: Any) -> Any:
    with run.forward(root):
        output = root(*inputs)
    return run.output(root, output)


def train(run: Run, scaled_only: LossScaling | None = None) -> tuple[list[float], torch.Tensor]:
    """Losses and parameters of a small training with accumulation and clipping, seen through events.

    With ``scaled_only`` the forward is left out of the events: everything but the reduced precision.
    """
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if scaled_only is not None:
        scaled_only.watch(model.parameters())
    losses = []
    for step in range(4):
        for part in range(2):
            inputs = torch.linspace(-1, 1, 32).reshape(8, 4) * (1 + step + part)
            output = model(inputs) if scaled_only is not None else forward(run, model, inputs)
            loss = (output - 0.3).square().mean() / 2
            losses.append(loss.item())
            torch.autograd.backward(run.backward(loss))
        run.optimizer(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        if run.gradients(optimizer):
            with run.step(optimizer):
                optimizer.step()
        optimizer.zero_grad()
    return losses, torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize(("value", "inside"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_the_forward_computes_in_16_bits_and_hands_out_32(value: str, inside: torch.dtype) -> None:
    root, run = Watched(4, 4), a_run_with(value)
    output = forward(run, root, torch.ones(2, 4))
    assert (root.computed, output.dtype) == (inside, torch.float32)
    assert run.unanswered() == []


def test_a_live_switch_to_off_computes_in_float32_again() -> None:
    root, run = Watched(4, 4), a_run_with("bf16")
    forward(run, root, torch.ones(2, 4))
    run.configure({})
    forward(run, root, torch.ones(2, 4))
    assert root.computed == torch.float32
    assert not torch.is_autocast_enabled("cpu")


def test_a_root_inside_a_root_is_no_autocast_of_the_program() -> None:
    outer, inner, run = Watched(4, 4), Watched(4, 4), a_run_with("bf16")
    with run.forward(outer):
        forward(run, inner, torch.ones(2, 4))
    assert run.refused == {}


def test_bf16_trains_close_to_float32() -> None:
    reduced, _ = train(a_run_with("bf16"))
    full, _ = train(a_run_with("off"))
    assert reduced == pytest.approx(full, rel=0.03)
    assert reduced != full


def test_scaling_alone_is_equal_to_the_last_bit() -> None:
    knob = Amp()
    scaled_losses, scaled = train(a_run_with("fp16", knob), scaled_only=knob.scaling)
    losses, parameters = train(a_run_with("off"))
    assert scaled_losses == losses
    assert torch.equal(scaled, parameters)
    assert knob.skipped_steps == 0


def test_fp16_trains_close_to_float32() -> None:
    reduced, _ = train(a_run_with("fp16"))
    full, _ = train(a_run_with("off"))
    assert reduced == pytest.approx(full, rel=0.01)
    assert reduced != full


def test_an_infinite_gradient_skips_the_update_and_halves_the_scale() -> None:
    knob = Amp()
    run = a_run_with("fp16", knob)
    root = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(root.parameters(), lr=1.0)
    before = root.weight.detach().clone()
    torch.autograd.backward(run.backward(forward(run, root, torch.ones(1, 2)).sum() * float("inf")))
    assert run.gradients(optimizer) is False
    optimizer.step()
    assert torch.equal(root.weight, before)
    assert (knob.skipped_steps, knob.scaling.scale) == (1, 32768.0)


def test_clipping_sees_true_gradients() -> None:
    knob = Amp()
    knob.scaling = LossScaling(first_scale=1024.0)  # 3 x 65536 is more than float16 holds
    run = a_run_with("fp16", knob)
    root = nn.Linear(2, 1, bias=False)
    torch.autograd.backward(run.backward(forward(run, root, torch.tensor([[3.0, 4.0]])).sum()))
    assert nn.utils.clip_grad_norm_(root.parameters(), 100.0).item() == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("root", "reason"),
    [
        (nn.Linear(2, 1).double(), "float64, not float32"),
        (nn.Linear(2, 1).bfloat16(), "bfloat16, not float32"),
    ],
)
def test_parameters_of_another_type_are_refused(root: nn.Module, reason: str) -> None:
    run = a_run_with("bf16")
    with run.forward(root):
        assert not torch.is_autocast_enabled("cpu")
    assert reason in run.refused["amp"]


def test_the_programs_own_autocast_is_refused() -> None:
    run = a_run_with("bf16")
    with torch.autocast("cpu", dtype=torch.bfloat16), run.forward(nn.Linear(2, 1)):
        assert run.refused == {"amp": "the program uses autocast itself"}


def test_a_cpu_with_bf16_units_is_offered_bf16_alone() -> None:
    assert Amp().choices(a_rich_profile()) == ["off", "bf16"]


def test_fp16_on_a_cpu_is_legal_when_named() -> None:
    slow = a_rich_profile(a_machine(bf16_speedup=0.5))
    Amp().check("fp16", slow)
    assert Amp().present(slow) == "off"


def test_a_gpu_is_offered_both() -> None:
    assert Amp().choices(a_gpu_profile()) == ["off", "bf16", "fp16"]


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(a_machine(bf16_speedup=0.9)), "0.9 times the float32 rate"),
        (a_profile(run=RunFacts(own_autocast=True)), "autocast itself"),
        (a_profile(run=RunFacts(own_scaler=True)), "autocast itself"),
        (a_profile(roots=(a_root(dtypes=("float64",)),)), "float64, on which autocast has no effect"),
        (a_profile(roots=(a_root(dtypes=("torch.bfloat16",)),)), "bfloat16 already"),
    ],
)
def test_where_it_cannot_help_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        Amp().choices(profile)


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_gpu_profile(run=RunFacts(own_backward_transforms=True)), "autograd.grad or with create_graph"),
        (a_gpu_profile(optimizers=(an_optimizer(closure=True),)), "backward inside its step"),
        (a_gpu_profile(optimizers=()), "without torch.optim"),
    ],
)
def test_fp16_needs_a_loss_to_scale_and_an_update_to_skip(profile: Profile, reason: str) -> None:
    assert Amp().choices(profile) == ["off", "bf16"]
    with pytest.raises(Refused, match=reason):
        Amp().check("fp16", profile)
