import copy

import pytest
import torch

from advisor.tuners.mechanisms.loss_scaling import LossScaling


def a_parameter(value: float = 1.0) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(value))


def test_gradients_are_true_before_they_are_accumulated() -> None:
    scaling, parameter = LossScaling(), a_parameter()
    scaling.watch([parameter])
    for _ in range(2):
        torch.autograd.backward(scaling.scaled(parameter * 3))
    assert parameter.grad == 6.0


def test_small_fp16_gradients_survive() -> None:
    def gradient(scaling: LossScaling | None) -> float:
        parameter = a_parameter()
        loss = (parameter.half() * torch.tensor(1e-4, dtype=torch.float16)).float() * 1e-5
        if scaling is not None:
            scaling.watch([parameter])
            loss = scaling.scaled(loss)
        torch.autograd.backward(loss)
        assert parameter.grad is not None
        return parameter.grad.item()

    assert gradient(LossScaling()) == pytest.approx(1e-9, rel=0.01)
    assert gradient(None) == 0.0


def test_a_backward_that_is_not_scaled_is_left_alone() -> None:
    scaling, parameter = LossScaling(), a_parameter()
    scaling.watch([parameter])
    torch.autograd.backward(scaling.scaled(parameter * 3))
    parameter.grad = None
    torch.autograd.backward(parameter * 3)
    assert parameter.grad == 3.0
    assert torch.autograd.grad(parameter * 5, parameter)[0] == 5.0


def test_a_loss_without_a_graph_fails_in_torchs_own_words() -> None:
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.backward(LossScaling().scaled(torch.ones(())))


def test_a_parameter_in_no_root_gets_its_true_gradient_too() -> None:
    scaling, parameter = LossScaling(), a_parameter()
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    for _ in range(2):
        torch.autograd.backward(scaling.scaled(parameter * 3))
        assert scaling.keeps(optimizer)
        assert parameter.grad == 3.0
        optimizer.zero_grad()


def test_an_overflow_clears_gradients_and_halves_the_scale() -> None:
    scaling, parameter = LossScaling(first_scale=8.0), a_parameter()
    scaling.watch([parameter])
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    torch.autograd.backward(scaling.scaled(parameter * float("inf")))
    assert not scaling.keeps(optimizer)
    assert (parameter.grad, scaling.scale, scaling.skipped_steps) == (None, 4.0, 1)


def test_the_scale_doubles_after_enough_good_steps_in_a_row() -> None:
    scaling, parameter = LossScaling(first_scale=8.0, growth_interval=2), a_parameter()
    scaling.watch([parameter])
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    scales = []
    for factor in (1.0, float("inf"), 1.0, 1.0, 1.0, 1.0):
        optimizer.zero_grad()
        torch.autograd.backward(scaling.scaled(parameter * factor))
        scaling.keeps(optimizer)
        scales.append(scaling.scale)
    assert scales == [8.0, 4.0, 4.0, 8.0, 8.0, 16.0]


def test_it_grows_as_torchs_own_scaler_does() -> None:
    own = torch.amp.GradScaler("cpu")
    assert LossScaling().scale == own.get_scale() or own.get_scale() == 65536.0
    assert (own.get_growth_factor(), own.get_backoff_factor(), own.get_growth_interval()) == (2.0, 0.5, 2000)


def test_two_optimizers_do_not_make_it_grow_twice_as_fast() -> None:
    scaling = LossScaling(first_scale=8.0, growth_interval=3)
    parameters = [a_parameter(), a_parameter()]
    optimizers = [torch.optim.SGD([parameter], lr=0.0) for parameter in parameters]
    for _ in range(2):
        for parameter, optimizer in zip(parameters, optimizers, strict=True):
            torch.autograd.backward(scaling.scaled(parameter * 1.0))
            scaling.keeps(optimizer)
    assert scaling.scale == 8.0


def test_sparse_gradients_are_checked_too() -> None:
    scaling = LossScaling()
    table = torch.nn.Embedding(3, 2, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=1.0)
    scaling.watch(table.parameters())
    torch.autograd.backward(scaling.scaled(table(torch.tensor([1, 1])).sum()))
    assert scaling.keeps(optimizer)
    assert table.weight.grad is not None
    assert table.weight.grad.to_dense().tolist() == [[0, 0], [2, 2], [0, 0]]


def test_a_copy_of_a_watched_model_is_not_watched() -> None:
    scaling, model = LossScaling(), torch.nn.Linear(1, 1)
    scaling.watch(model.parameters())
    assert len(scaling.watch(copy.deepcopy(model).parameters())) == 2
    assert scaling.watch(model.parameters()) == []
