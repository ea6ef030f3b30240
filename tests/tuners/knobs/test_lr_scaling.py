from dataclasses import replace
from typing import Any

import pytest
import torch
from builders import a_loader, a_profile, an_optimizer

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.comparing.batches.goodput import efficiency
from advisor.tuners.knob import AnyKnob, Refused
from advisor.tuners.knobs.batch_size import BatchSize
from advisor.tuners.knobs.lr_scaling import LrScaling


def known(**facts: Any) -> Profile:
    return replace(a_profile(loader=a_loader(), optimizers=(an_optimizer(),)), **facts)


def a_configured(rule: str, batch_size: int) -> Run:
    knobs: dict[str, AnyKnob] = {"lr_scaling": LrScaling(), "batch_size": BatchSize()}
    run = Run(knobs, {"lr_scaling": "none", "batch_size": 32}, Refused)
    run.configure({"lr_scaling": rule, "batch_size": batch_size})
    return run


def a_parameter() -> torch.nn.Parameter:
    parameter = torch.nn.Parameter(torch.zeros(()))
    parameter.grad = torch.ones(())
    return parameter


@pytest.mark.parametrize(
    ("rule", "batch_size", "moved"), [("linear", 128, -0.4), ("sqrt", 128, -0.2), ("linear", 16, -0.05)]
)
def test_an_update_is_as_large_as_the_rule_says(rule: str, batch_size: int, moved: float) -> None:
    parameter = a_parameter()
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    run = a_configured(rule, batch_size)
    with run.step(optimizer):
        optimizer.step()
    assert parameter.item() == pytest.approx(moved)
    assert run.applied == {"lr_scaling"}


def test_the_rate_of_every_group_is_back_after_the_update() -> None:
    optimizer = torch.optim.SGD(
        [{"params": [a_parameter()], "lr": 0.1}, {"params": [a_parameter()], "lr": 0.3}]
    )
    run = a_configured("linear", 64)
    with run.step(optimizer):
        assert [group["lr"] for group in optimizer.param_groups] == [0.2, 0.6]
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.3]


def test_the_rate_is_back_even_when_the_update_fails() -> None:
    optimizer = torch.optim.SGD([a_parameter()], lr=0.1)
    with pytest.raises(KeyError), a_configured("linear", 64).step(optimizer):
        raise KeyError
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_a_scheduler_sees_the_programs_own_rate() -> None:
    parameter = a_parameter()
    optimizer = torch.optim.SGD([parameter], lr=0.8)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    run = a_configured("linear", 64)
    for _ in range(2):
        with run.step(optimizer):
            optimizer.step()
        scheduler.step()
    assert scheduler.get_last_lr() == [0.2]
    assert parameter.item() == pytest.approx(-1.6 - 0.8)


def test_a_rate_in_a_shared_tensor_is_scaled_once_and_stays_the_same_object() -> None:
    rate = torch.tensor(0.1)
    first, second = a_parameter(), a_parameter()
    groups = [{"params": [first], "lr": rate}, {"params": [second], "lr": rate}]
    optimizer = torch.optim.SGD(groups, foreach=False)
    with a_configured("linear", 128).step(optimizer):
        optimizer.step()
    assert (first.item(), second.item()) == pytest.approx((-0.4, -0.4))
    assert rate.item() == pytest.approx(0.1)
    assert optimizer.param_groups[0]["lr"] is rate


def test_an_unchanged_batch_scales_nothing() -> None:
    optimizer = torch.optim.SGD([a_parameter()], lr=0.1)
    with a_configured("linear", 32).step(optimizer):
        assert optimizer.param_groups[0]["lr"] == 0.1


def test_a_summed_loss_is_not_scaled_linearly() -> None:
    profile = known(run=RunFacts(sum_reduced_loss=True))
    assert LrScaling().choices(profile) == ["none", "sqrt"]
    with pytest.raises(Refused, match="summed over the batch"):
        LrScaling().check("linear", profile)


@pytest.mark.parametrize(
    ("profile", "reason"),
    [(known(optimizers=()), "without torch.optim"), (known(loader=None), "batch size cannot be changed")],
)
def test_without_an_optimizer_or_a_batch_size_there_is_nothing_to_scale(
    profile: Profile, reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        LrScaling().choices(profile)


@pytest.mark.parametrize(("noise_scale", "moved"), [(32, -0.1 * 4 * 64 / 160), (10**9, -0.4), (0.001, -0.1)])
def test_by_the_noise_scale_a_rate_is_linear_far_below_it_and_constant_far_above(
    noise_scale: float, moved: float
) -> None:
    parameter = a_parameter()
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    with a_configured(f"noise_scale:{noise_scale}", 128).step(optimizer):
        optimizer.step()
    assert parameter.item() == pytest.approx(moved, rel=1e-3)


def test_that_rule_is_the_one_by_which_goodput_counts() -> None:
    run = a_configured("noise_scale:420", 96)
    optimizer = torch.optim.SGD([a_parameter()], lr=1.0)
    with run.step(optimizer):
        expected = 96 / 32 * efficiency(96, 32, 420)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(expected)


@pytest.mark.parametrize("text", ["noise_scale", "noise_scale:", "noise_scale:0", "noise_scale:-3"])
def test_a_rule_of_the_noise_scale_without_one_is_told_how_to_name_it(text: str) -> None:
    assert LrScaling().parse("noise_scale:12.5") == "noise_scale:12.5"
    with pytest.raises(ValueError, match="`noise_scale:400` for one of 400 samples"):
        LrScaling().parse(text)


def test_the_rule_of_the_noise_scale_is_for_means_and_sgd() -> None:
    sgd = known(optimizers=(an_optimizer("SGD"),))
    LrScaling().check("noise_scale:400", sgd)
    with pytest.raises(Refused, match="summed over the batch"):
        LrScaling().check("noise_scale:400", replace(sgd, run=RunFacts(sum_reduced_loss=True)))
    with pytest.raises(Refused, match="updates by AdamW"):
        LrScaling().check("noise_scale:400", known())
    assert LrScaling().choices(sgd) == ["none", "linear", "sqrt"]


@pytest.mark.parametrize(("rule", "factor"), [("linear", 4.0), ("sqrt", 2.0), ("noise_scale:32", 1.6)])
def test_the_code_to_adopt_warms_up_to_the_rate_of_the_rule(rule: str, factor: float) -> None:
    optimizer = torch.optim.SGD([a_parameter()], lr=0.1 * factor)
    names: dict[str, Any] = {"k": 4, "B": 32, "lr": 0.1, "steps": 36, "torch": torch, "optimizer": optimizer}
    code, _, each_step = LrScaling().change(rule).snippet.rpartition("\n")
    exec(code, names)
    assert names["lr"] == pytest.approx(0.1 * factor)
    rates = []
    for _ in range(3):  # of which two are the warm-up
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        exec(each_step, names)
    assert rates == pytest.approx([0.1, 0.1 * (1 + factor) / 2, 0.1 * factor])


@pytest.mark.parametrize("ratio", [1, 0.5])
def test_a_rate_that_is_not_raised_needs_no_way_to_it(ratio: float) -> None:
    optimizer = torch.optim.SGD([a_parameter()], lr=0.1 * ratio)
    names: dict[str, Any] = {"k": ratio, "lr": 0.1, "steps": 36, "torch": torch, "optimizer": optimizer}
    code, _, each_step = LrScaling().change("linear").snippet.rpartition("\n")
    exec(code, names)
    assert names["lr"] == optimizer.param_groups[0]["lr"] == 0.1 * ratio
    optimizer.step()
    exec(each_step, names)
    assert optimizer.param_groups[0]["lr"] == 0.1 * ratio
