from typing import Any

import pytest
import torch
from builders import a_profile, a_run, a_window, an_op, an_optimizer
from torch import nn

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.optimizer_in_backward import OptimizerInBackward

UNCLIPPED = a_window(an_op())
INPUTS = torch.linspace(-1, 1, 32).reshape(8, 4)


def a_network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def switched_on(**others: Any) -> Run:
    run = a_run(optimizer_in_backward=OptimizerInBackward())
    run.configure({"optimizer_in_backward": "on", **others})
    return run


def train(optimizer_of: Any, on: bool) -> tuple[nn.Sequential, torch.optim.Optimizer]:
    """Five steps under a falling rate, as a loop makes them that knows nothing of hooks."""
    model = a_network()
    optimizer = optimizer_of(model.parameters())
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
    run = switched_on() if on else a_run()
    for _ in range(5):
        model(INPUTS).square().mean().backward()
        run.optimizer(optimizer)
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
    assert run.refused == {}
    return model, optimizer


@pytest.mark.parametrize(
    "optimizer_of",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.05),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.05, fused=True),
        lambda parameters: torch.optim.Adagrad(parameters, lr=0.05),
    ],
    ids=["SGD", "AdamW", "fused", "Adagrad"],
)
def test_updates_inside_backward_see_what_updates_after_it_see(optimizer_of: Any) -> None:
    for ours, own in zip(
        train(optimizer_of, on=True)[0].parameters(),
        train(optimizer_of, on=False)[0].parameters(),
        strict=True,
    ):
        torch.testing.assert_close(ours, own)


def test_after_backward_no_gradient_is_left_and_state_is_where_it_belongs() -> None:
    model, optimizer = train(lambda parameters: torch.optim.AdamW(parameters, lr=0.05), on=True)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    model(INPUTS).square().mean().backward()
    assert not any(map(torch.equal, model.parameters(), before))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert set(optimizer.state) == set(model.parameters())
    assert [len(group["params"]) for group in optimizer.param_groups] == [4]


def test_frozen_parameters_are_left_alone() -> None:
    model = a_network()
    next(model.parameters()).requires_grad_(False)
    run = switched_on()
    run.optimizer(torch.optim.SGD(model.parameters()))
    assert (run.refused, run.unanswered()) == ({}, [])


def test_an_optimizer_that_needs_all_gradients_together_is_refused() -> None:
    class Own(torch.optim.SGD):
        pass

    for kind in (torch.optim.LBFGS, Own):
        run = switched_on()
        run.optimizer(kind(a_network().parameters()))
        assert kind.__name__ in run.refused["optimizer_in_backward"]


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"amp": "fp16"}, "divided by the scale"),
        ({"lr_scaling": "sqrt"}, "learning rate is scaled"),
        ({"accumulation": 4}, "several backward passes"),
    ],
)
def test_what_acts_between_backward_and_update_excludes_it(other: dict[str, Any], reason: str) -> None:
    assert reason in switched_on(**other).refused["optimizer_in_backward"]


def test_a_workload_that_neither_clips_nor_accumulates_may_try_it() -> None:
    profile = a_profile(optimizers=(an_optimizer(),), window=UNCLIPPED)
    assert OptimizerInBackward().choices(profile) == ["off", "on"]


def test_a_script_is_told_what_to_write() -> None:
    profile = a_profile(optimizers=(an_optimizer(),), window=UNCLIPPED, target_kind="script")
    with pytest.raises(Refused, match="register_post_accumulate_grad_hook"):
        OptimizerInBackward().choices(profile)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"optimizers": ()}, "without torch.optim"),
        ({"optimizers": (an_optimizer(), an_optimizer())}, "several optimizers"),
        ({"optimizers": (an_optimizer("LBFGS", closure=True),)}, "calls backward inside"),
        ({"optimizers": (an_optimizer(differentiable=True),)}, "differentiable"),
        ({"run": RunFacts(backwards_per_step=4.0)}, "several backward passes"),
        ({"run": RunFacts(own_scaler=True)}, "scales its loss"),
        ({"window": None}, "no operators were recorded"),
        ({"window": a_window(an_op("aten::_foreach_norm", phase="other"))}, "as for clipping"),
    ],
)
def test_elsewhere_the_reason_is_said(facts: dict[str, Any], reason: str) -> None:
    profile: Profile = a_profile(**{"optimizers": (an_optimizer(),), "window": UNCLIPPED, **facts})
    with pytest.raises(Refused, match=reason):
        OptimizerInBackward().choices(profile)
