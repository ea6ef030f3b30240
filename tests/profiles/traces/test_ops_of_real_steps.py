"""What the analysis makes of real steps, recorded on the CPU."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from trace_builder import a_recording

from advisor.profiles.facts.recorded import OpCost, Window
from advisor.profiles.traces.calls import calls_of
from advisor.profiles.traces.ops import phases_of_trace, recomputed, window_of

recorded = partial(window_of, clean_step_ms=None)
Step = Callable[[], object]


def _op(window: Window, name: str, phase: str | None = None) -> OpCost:
    return next(op for op in window.ops if op.name == name and phase in (None, op.phase))


def _training(model: Any, batch: Any, optimizer: Any) -> Step:
    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def _mlp(**adam: Any) -> Step:
    import torch
    from torch.nn import Linear, ReLU, Sequential

    model = Sequential(Linear(16, 32), ReLU(), Linear(32, 4))
    return _training(model, torch.randn(8, 16), torch.optim.Adam(model.parameters(), **adam))


def test_phases_come_from_backward_nodes_and_the_optimizers_annotations(tmp_path: Path) -> None:
    window = recorded(a_recording(tmp_path, _mlp()))
    assert (window.steps, window.with_shapes, window.with_stacks, window.overhead) == (3, True, False, None)
    assert _op(window, "aten::relu").phase == "forward"
    assert _op(window, "aten::threshold_backward").phase == "backward"
    assert _op(window, "aten::addcdiv_").phase == "optimizer"
    assert {op.phase for op in window.ops if op.name == "aten::addmm"} == {"forward"}
    addmm = _op(window, "aten::addmm")
    assert (addmm.shapes[1], addmm.dtype, addmm.calls) in {
        ((8, 16), "float32", 1.0),
        ((8, 32), "float32", 1.0),
    }
    assert 0 < sum(op.self_ms for op in window.ops if op.phase != "other") <= window.compute_ms * 1.001
    assert window.compute_ms < window.step_ms


def test_dispatches_are_operators_that_python_or_a_node_calls(tmp_path: Path) -> None:
    import torch

    tensor = torch.randn(4, 4)
    window = recorded(
        a_recording(tmp_path, lambda: torch.nn.functional.linear(tensor, tensor, tensor[0]).tanh())
    )
    assert window.dispatches == 3  # select, linear and tanh, but not the addmm inside


def test_operators_that_make_the_batch_are_not_the_steps_own(tmp_path: Path) -> None:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    batches = iter(DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8))
    window = recorded(a_recording(tmp_path, lambda: next(batches)[0].tanh()))
    assert any(op.phase == "loader" and op.calls >= 8 for op in window.ops) and window.dispatches == 1


@pytest.mark.parametrize(
    ("adam", "single"), [({}, True), ({"foreach": True}, False), ({"fused": True}, False)]
)
def test_updates_parameter_by_parameter_are_told_from_grouped_ones(
    adam: dict[str, bool], single: bool, tmp_path: Path
) -> None:
    assert recorded(a_recording(tmp_path, _mlp(**adam))).single_tensor_updates is single


def test_without_an_update_the_form_of_the_optimizer_is_not_known(tmp_path: Path) -> None:
    import torch

    assert recorded(a_recording(tmp_path, lambda: torch.randn(3))).single_tensor_updates is None


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_forward_that_runs_again_in_backward_is_recomputation(use_reentrant: bool, tmp_path: Path) -> None:
    import torch
    from torch.nn import Linear, ReLU, Sequential
    from torch.utils.checkpoint import checkpoint

    block = Sequential(Linear(64, 64), ReLU(), Linear(64, 64), ReLU(), Linear(64, 64))
    batch = torch.randn(128, 64, requires_grad=True)

    def again() -> None:
        checkpoint(block, batch, use_reentrant=use_reentrant).sum().backward()

    calls = calls_of(a_recording(tmp_path, again))
    assert calls is not None
    names = [calls.trace.names[at] for at in calls.name[recomputed(calls)].tolist()]
    once = ["aten::linear", "aten::relu", "aten::linear", "aten::relu", "aten::linear"]
    assert [name for name in names if name != "aten::detach"] == once * 3


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_python_between_operators_is_recomputed_as_well(use_reentrant: bool, tmp_path: Path) -> None:
    import torch
    from torch.utils.checkpoint import checkpoint

    batch = torch.randn(8, 8, requires_grad=True)

    def slow(x: torch.Tensor) -> torch.Tensor:
        x = x.exp()
        time.sleep(0.02)
        return x.tanh()

    def again() -> None:
        checkpoint(slow, batch, use_reentrant=use_reentrant).sum().backward()

    window = recorded(a_recording(tmp_path, again))
    assert 19 < window.recompute_ms < 40
    assert window.step_ms > 40


def test_what_runs_once_is_not_recomputed(tmp_path: Path) -> None:
    window = recorded(a_recording(tmp_path, _mlp()))
    assert window.recompute_ms == 0


def test_a_second_derivative_is_no_recomputation(tmp_path: Path) -> None:
    import torch
    from torch.nn import Linear, Sequential, Tanh

    model, batch = Sequential(Linear(8, 8), Tanh(), Linear(8, 1)), torch.randn(4, 8, requires_grad=True)

    def penalty() -> None:
        (slope,) = torch.autograd.grad(model(batch).sum(), batch, create_graph=True)
        slope.square().sum().backward()

    assert recorded(a_recording(tmp_path, penalty)).recompute_ms == 0


def test_casts_of_autocast_are_counted_and_those_of_numbers_are_not(tmp_path: Path) -> None:
    import torch
    from torch.nn import Linear

    model, batch = Linear(64, 64), torch.randn(64, 64)

    def cast() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model(batch).float().sum().backward()

    window = recorded(a_recording(tmp_path, cast))
    assert 0 < window.cast_ms < window.compute_ms
    assert _op(window, "aten::addmm").dtype == "bfloat16"
    plain = recorded(a_recording(tmp_path, lambda: (model(batch) * 0.5).sum().backward()))
    assert plain.cast_ms == 0


def test_clearing_by_zeros_takes_time_and_clearing_by_none_does_not(tmp_path: Path) -> None:
    import torch

    model = torch.nn.Linear(32, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def clear(set_to_none: bool) -> Step:
        def step() -> None:
            model(torch.ones(4, 32)).sum().backward()
            optimizer.zero_grad(set_to_none=set_to_none)

        return step

    assert recorded(a_recording(tmp_path, clear(False))).zero_ms > 0
    assert recorded(a_recording(tmp_path, clear(True))).zero_ms == 0


def test_operators_within_the_loader_are_of_its_phase(tmp_path: Path) -> None:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(torch.randn(400, 8)), batch_size=4)
    batches, model = iter(loader), torch.nn.Linear(8, 2)
    trace = a_recording(tmp_path, lambda: model(next(batches)[0]).sum().backward())
    window, phases = recorded(trace), phases_of_trace(trace)
    assert {op.phase for op in window.ops if op.name == "aten::stack"} == {"loader"}
    assert phases is not None
    assert phases.input_wait_ms > 0 and phases.forward_ms > 0 and phases.backward_ms > 0
    assert phases.optimizer_ms == phases.sync_ms == phases.communication_ms == 0


def test_places_are_those_of_the_users_functions_also_in_backward(tmp_path: Path) -> None:
    import torch

    weight = torch.randn(4, 4, requires_grad=True)

    def mine() -> Any:
        return torch.tanh(weight)

    def step() -> None:
        mine().sum().backward()

    window = recorded(a_recording(tmp_path, step, stacks=True))
    assert window.with_stacks
    for name in ("aten::tanh", "aten::tanh_backward"):
        location = _op(window, name).location
        assert location is not None
        assert (Path(location.file).name, location.function) == (Path(__file__).name, "mine")
        assert location.line == mine.__code__.co_firstlineno


def test_the_phases_of_our_own_recorder_are_known(tmp_path: Path) -> None:
    import torch

    from advisor.profiles.hooks.recorder import Recorder
    from advisor.profiles.traces.reading import read_trace

    path, tensor = tmp_path / "trace.json", torch.randn(4, 4)
    recorder = Recorder(path)
    recorder.start()
    for step in range(2):
        for phase, function in (("input_wait", torch.sin), ("forward", torch.cos), ("optimizer", torch.tan)):
            recorder.enter(phase)
            function(tensor)
            recorder.leave()
        if step == 0:
            recorder.step()
    recorder.stop()
    window = recorded(read_trace(path))
    assert window.steps == 2
    phases = {op.name: op.phase for op in window.ops}
    assert phases == {"aten::sin": "loader", "aten::cos": "forward", "aten::tan": "optimizer"}
