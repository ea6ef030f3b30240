from collections.abc import Callable

import pytest
import torch
from builders import a_profile, a_run, an_optimizer
from small_training import losses_of, watched
from torch import nn

from advisor.profiles.events import Run
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.set_to_none import SetToNone

OTHER = {"on": "off", "off": "on"}


def set_to(value: str) -> Run:
    run = a_run({"set_to_none": OTHER[value]}, set_to_none=SetToNone())
    run.configure({"set_to_none": value})
    return run


class Two(nn.Module):
    """Two parameters; a step uses those that it names."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ParameterList(torch.ones(3) for _ in range(2))


def train(run: Run, used: list[tuple[int, ...]], kind: Callable[..., torch.optim.Optimizer]) -> Two:
    """One step for each entry of ``used``, with gradients cleared in the program's own way before it."""
    model = Two()
    with watched(run):
        optimizer = kind(model.parameters())
        for parts in used:
            optimizer.zero_grad(set_to_none=run.config["set_to_none"] == "off")
            sum(model.parts[part].pow(2).sum() for part in parts).backward()
            optimizer.step()
        optimizer.zero_grad(set_to_none=run.config["set_to_none"] == "off")
    return model


@pytest.mark.parametrize("value", ["on", "off"])
def test_the_losses_stay_the_same_bit_by_bit(value: str) -> None:
    run = set_to(value)
    assert losses_of(run, set_to_none=value == "off") == losses_of(set_to_none=value == "off")
    assert run.applied == {"set_to_none"}
    assert run.unanswered() == []


def test_gradients_are_gone_where_the_program_would_write_zeros() -> None:
    model = train(set_to("on"), [(0, 1)], torch.optim.AdamW)
    assert [part.grad for part in model.parts] == [None, None]


def test_the_backward_adds_to_zeros_where_the_program_would_take_gradients_away() -> None:
    run = set_to("off")
    weight = nn.Parameter(torch.ones(2))
    with watched(run):
        optimizer = torch.optim.SGD([weight])
        weight.sum().backward()
        gradient = weight.grad
        optimizer.zero_grad()
        weight.sum().backward()
    assert weight.grad is gradient
    assert gradient is not None and gradient.tolist() == [1.0, 1.0]


def test_several_backwards_add_up_to_one_gradient() -> None:
    run = set_to("off")
    weight = nn.Parameter(torch.ones(2))
    with watched(run):
        optimizer = torch.optim.SGD([weight])
        for _ in range(2):
            optimizer.zero_grad()
            weight.sum().backward()
            (3 * weight).sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [4.0, 4.0]


@pytest.mark.parametrize("value", ["on", "off"])
def test_a_parameter_without_a_gradient_in_some_steps_is_refused(value: str) -> None:
    run = set_to(value)
    train(run, [(0, 1), (0, 1), (0,), (0, 1)], torch.optim.AdamW)
    assert "in some steps only" in run.refused["set_to_none"]


@pytest.mark.parametrize("value", ["on", "off"])
def test_plain_sgd_treats_zeros_and_none_alike(value: str) -> None:
    run = set_to(value)
    train(run, [(0, 1), (0,), (0, 1)], torch.optim.SGD)
    assert run.refused == {}


@pytest.mark.parametrize("value", ["on", "off"])
def test_a_parameter_that_never_has_a_gradient_is_no_obstacle(value: str) -> None:
    run = set_to(value)
    train(run, [(0,), (0,), (0,)], torch.optim.AdamW)
    assert run.refused == {}


@pytest.mark.parametrize("value", ["on", "off"])
def test_clearing_twice_is_no_step_without_gradients(value: str) -> None:
    run = set_to(value)
    model = Two()
    with watched(run):
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            torch.cat(list(model.parts)).sum().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=value == "off")
            optimizer.zero_grad(set_to_none=value == "off")
    assert run.refused == {}


def test_a_live_switch_leaves_no_old_gradients_behind() -> None:
    run = set_to("off")
    weight = nn.Parameter(torch.ones(2))
    with watched(run):
        optimizer = torch.optim.SGD([weight])
        weight.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        run.configure({})
        run.configure({"set_to_none": "off"})
        (2 * weight).sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [2.0, 2.0]


def test_it_is_offered_where_zeros_are_written() -> None:
    profile = a_profile(
        optimizers=(an_optimizer(zeroes_gradients=False), an_optimizer(zeroes_gradients=True))
    )
    assert SetToNone().choices(profile) == ["off", "on"]


def test_where_gradients_are_none_already_nothing_is_proposed_but_a_name_is_obeyed() -> None:
    profile = a_profile(optimizers=(an_optimizer(zeroes_gradients=False),))
    assert SetToNone().present(profile) == "on"
    SetToNone().check("off", profile)
    with pytest.raises(Refused, match="None already"):
        SetToNone().choices(profile)


def test_without_an_optimizer_or_a_clearing_there_is_nothing_to_set() -> None:
    with pytest.raises(Refused, match=r"without torch\.optim"):
        SetToNone().choices(a_profile())
    with pytest.raises(Refused, match="not seen to clear"):
        SetToNone().choices(a_profile(optimizers=(an_optimizer(),)))


def test_what_the_user_writes_clears_gradients_like_that() -> None:
    weight = nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    optimizer = torch.optim.SGD([weight])
    exec(SetToNone().change("off").snippet, {"optimizer": optimizer})
    assert weight.grad is not None and weight.grad.tolist() == [0.0, 0.0]
    exec(SetToNone().change("on").snippet, {"optimizer": optimizer})
    assert weight.grad is None
