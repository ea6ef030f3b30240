from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn, optim

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.parameter_server.rebuilding import recipe_of

Make = Callable[[Any], optim.Optimizer]


def parameters() -> list[nn.Parameter]:
    return [nn.Parameter(torch.ones(3, 2)), nn.Parameter(torch.ones(2, 2))]


def rebuilt(optimizer: optim.Optimizer) -> optim.Optimizer:
    """Made from the recipe alone, with the same parameters."""
    recipe = recipe_of(optimizer)
    made: Any = recipe.kind
    second: optim.Optimizer = made(recipe.groups, **recipe.arguments)
    recipe.check(second)
    return second


MAKERS: dict[str, Make] = {
    "SGD": lambda params: optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda params: optim.Adam(params, lr=0.1, betas=(0.8, 0.9), amsgrad=True),
    "AdamW": lambda params: optim.AdamW(params, lr=0.1, weight_decay=0.3),
    "NAdam": lambda params: optim.NAdam(params, decoupled_weight_decay=True),
    "RAdam": lambda params: optim.RAdam(params, lr=0.1),
    "Adagrad": lambda params: optim.Adagrad(params, initial_accumulator_value=0.5),
    "RMSprop": lambda params: optim.RMSprop(params, centered=True),
    "Adadelta": lambda params: optim.Adadelta(params, rho=0.8),
    "Adamax": lambda params: optim.Adamax(params),
    "Adafactor": lambda params: optim.Adafactor(params, lr=0.1),
    "ASGD": lambda params: optim.ASGD(params, lr=0.1),
    "Rprop": lambda params: optim.Rprop(params, etas=(0.4, 1.3)),
    "Muon": lambda params: optim.Muon(params, lr=0.1),
}


@pytest.mark.parametrize("name", MAKERS)
def test_an_optimizer_of_torch_is_built_again_and_updates_alike(name: str) -> None:
    first = MAKERS[name](parameters())
    second = MAKERS[name](parameters())
    third = rebuilt(second)
    for optimizer in (first, third):
        for _ in range(3):
            for parameter in optimizer.param_groups[0]["params"]:
                parameter.grad = parameter.detach() * 0.5
            optimizer.step()
    for ours, own in zip(third.param_groups[0]["params"], first.param_groups[0]["params"], strict=True):
        assert torch.equal(ours, own)
        assert not torch.equal(ours, torch.ones_like(ours))


def test_each_group_keeps_its_settings() -> None:
    one, two = parameters()
    groups = [{"params": [one], "lr": 0.5}, {"params": [two], "weight_decay": 0.0}]
    second = rebuilt(optim.AdamW(groups, lr=0.1, weight_decay=0.2))
    found = [(group["lr"], group["weight_decay"], group["params"]) for group in second.param_groups]
    assert [(lr, decay) for lr, decay, _ in found] == [(0.5, 0.2), (0.1, 0.0)]
    assert found[0][2][0] is one and found[1][2][0] is two


class Warming(optim.SGD):
    """Keeps a setting of its own beside those of SGD."""

    def __init__(self, params: Any, lr: float = 0.1, steps: int = 10) -> None:
        super().__init__(params, lr=lr)
        self.steps = steps


class Required(optim.SGD):
    """Has a setting that is lost where it is made."""

    def __init__(self, params: Any, scale: float) -> None:
        super().__init__(params, lr=0.1 * scale)


class Fixed(optim.SGD):
    """Hands everything on, and more."""

    def __init__(self, params: Any, **settings: Any) -> None:
        super().__init__(params, **{**settings, "momentum": 0.9})


def test_a_setting_kept_elsewhere_is_noticed_where_it_differs() -> None:
    rebuilt(Warming(parameters()))
    with pytest.raises(Refused, match="Warming cannot be built again from its settings: steps"):
        rebuilt(Warming(parameters(), steps=3))


def test_a_class_that_takes_any_setting_gets_them_all() -> None:
    assert rebuilt(Fixed(parameters(), lr=0.3)).defaults["lr"] == 0.3


def test_a_setting_that_is_needed_and_lost_cannot_be_made_up() -> None:
    with pytest.raises(TypeError, match="scale"):
        rebuilt(Required(parameters(), scale=2.0))


def test_hooks_would_be_lost() -> None:
    optimizer = optim.SGD(parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: None)
    with pytest.raises(Refused, match="hooks are registered on the SGD"):
        recipe_of(optimizer)
