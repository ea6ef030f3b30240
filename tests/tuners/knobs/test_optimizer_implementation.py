import pytest
import torch
from builders import a_gpu_profile, a_profile, a_run, an_optimizer

from advisor.profiles.facts.profile import OptimizerFacts
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.optimizer_implementation import OptimizerImplementation


def a_network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def train(kind: type[torch.optim.Optimizer], values: list[str], **options: object) -> list[torch.Tensor]:
    """Parameters after one step per value, switching between them while the optimizer lives."""
    model = a_network()
    optimizer = kind(model.parameters(), **options)  # type: ignore[arg-type]  # its base takes a dict
    run = a_run(optimizer_implementation=OptimizerImplementation())
    run.optimizer(optimizer)
    inputs = torch.linspace(-1, 1, 32).reshape(8, 4)
    for value in values:
        run.configure({"optimizer_implementation": value})
        run.optimizer(optimizer)
        model(inputs).square().mean().backward()
        with run.step(optimizer):
            optimizer.step()
        optimizer.zero_grad()
        assert run.refused == {}
    return [parameter.detach() for parameter in model.parameters()]


def kernels(value: str) -> set[str]:
    model = a_network()
    optimizer = torch.optim.AdamW(model.parameters())
    OptimizerImplementation().optimizer(optimizer, value)
    model(torch.ones(2, 4)).sum().backward()
    with torch.profiler.profile() as profile:
        optimizer.step()
    return {event.name for event in profile.events()}


def test_fused_is_really_one_kernel() -> None:
    assert "aten::_fused_adamw_" in kernels("fused")
    assert "aten::_fused_adamw_" not in kernels("default")


def test_foreach_really_groups() -> None:
    assert any("_foreach_" in name for name in kernels("foreach"))
    assert not any("_foreach_" in name for name in kernels("for-loop"))


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad])
@pytest.mark.parametrize("value", ["fused", "foreach", "for-loop"])
def test_every_form_computes_the_same_numbers(kind: type[torch.optim.Optimizer], value: str) -> None:
    for ours, own in zip(
        train(kind, [value] * 4, lr=0.05), train(kind, ["default"] * 4, lr=0.05), strict=True
    ):
        torch.testing.assert_close(ours, own, rtol=1e-4, atol=1e-6)


def test_switching_back_and_forth_keeps_the_state() -> None:
    switched = train(torch.optim.AdamW, ["default", "fused", "foreach", "fused", "default"], lr=0.05)
    for ours, own in zip(switched, train(torch.optim.AdamW, ["default"] * 5, lr=0.05), strict=True):
        torch.testing.assert_close(ours, own, rtol=1e-4, atol=1e-6)


def test_a_live_switch_returns_to_torchs_own_choice() -> None:
    optimizer = torch.optim.AdamW(a_network().parameters())
    run = a_run(optimizer_implementation=OptimizerImplementation())
    run.configure({"optimizer_implementation": "fused"})
    run.optimizer(optimizer)
    seen = [optimizer.param_groups[0][key] for key in ("fused", "foreach")]
    run.configure({})
    seen += [optimizer.param_groups[0][key] for key in ("fused", "foreach")]
    assert seen == [True, None, None, None]


def test_groups_added_later_follow() -> None:
    optimizer = torch.optim.AdamW(a_network().parameters())
    OptimizerImplementation().optimizer(optimizer, "fused")
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(1))]})
    assert [group["fused"] for group in optimizer.param_groups] == [True, True]


def test_fused_follows_a_programs_own_gradient_scaler() -> None:
    """The scaler unscales apart from the update, as it does for the form it was made with."""

    def trained(value: str) -> torch.Tensor:
        model = a_network()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        OptimizerImplementation().optimizer(optimizer, value)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for step in range(4):
            loss = model(torch.ones(2, 4)).square().sum() * (float("inf") if step == 1 else 1.0)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])

    torch.testing.assert_close(trained("fused"), trained("default"), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("optimizer", "value", "reason"),
    [
        (torch.optim.LBFGS(a_network().parameters()), "foreach", "LBFGS has no foreach form"),
        (torch.optim.Adadelta(a_network().parameters()), "fused", "Adadelta has no fused form"),
        (torch.optim.SGD(a_network().parameters(), differentiable=True), "fused", "SGD is differentiable"),
        (
            torch.optim.Adam(a_network().parameters(), lr=torch.tensor(0.1)),
            "foreach",
            "learning rate in a tensor",
        ),
    ],
)
def test_an_optimizer_without_the_form_is_refused(
    optimizer: torch.optim.Optimizer, value: str, reason: str
) -> None:
    run = a_run(optimizer_implementation=OptimizerImplementation())
    run.configure({"optimizer_implementation": value})
    run.optimizer(optimizer)
    assert reason in run.refused["optimizer_implementation"]


def test_adadelta_has_the_other_forms() -> None:
    optimizer = torch.optim.Adadelta(a_network().parameters())
    OptimizerImplementation().optimizer(optimizer, "foreach")
    assert optimizer.param_groups[0]["foreach"] is True
    assert "fused" not in optimizer.param_groups[0]


def test_on_a_cpu_only_fused_is_proposed() -> None:
    assert OptimizerImplementation().choices(a_profile(optimizers=(an_optimizer(),))) == ["default", "fused"]


def test_on_a_gpu_foreach_is_proposed_too() -> None:
    assert OptimizerImplementation().choices(a_gpu_profile()) == ["default", "foreach", "fused"]


@pytest.mark.parametrize(
    ("foreach", "fused", "present"),
    [(None, None, "default"), (False, None, "for-loop"), (True, None, "foreach"), (None, True, "fused")],
)
def test_the_present_form_is_read_from_the_program(
    foreach: bool | None, fused: bool | None, present: str
) -> None:
    profile = a_profile(optimizers=(an_optimizer(foreach=foreach, fused=fused),))
    assert OptimizerImplementation().present(profile) == present


@pytest.mark.parametrize(
    ("optimizers", "reason"),
    [
        ((), "without torch.optim"),
        ((an_optimizer("Adadelta", has_fused=False),), "Adadelta has no fused form"),
        ((an_optimizer(), an_optimizer("RMSprop", has_fused=False)), "RMSprop has no fused form"),
        ((an_optimizer(differentiable=True),), "differentiable"),
        ((an_optimizer(sparse_gradients=True),), "sparse gradients"),
        ((an_optimizer(), an_optimizer(fused=True)), "different implementations"),
    ],
)
def test_where_no_form_can_be_tried_the_reason_is_said(
    optimizers: tuple[OptimizerFacts, ...], reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        OptimizerImplementation().choices(a_profile(optimizers=optimizers))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_step_counts_move_with_the_form() -> None:
    parameter = torch.nn.Parameter(torch.zeros(1, device="cuda"))
    parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.AdamW([parameter])
    for value, place in (("default", "cpu"), ("fused", "cuda"), ("foreach", "cpu")):
        OptimizerImplementation().optimizer(optimizer, value)
        optimizer.step()
        assert optimizer.state[parameter]["step"].device.type == place
