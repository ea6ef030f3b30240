from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from trace_builder import (
    a_call,
    a_function,
    a_kernel,
    a_launch,
    a_node,
    a_recording,
    a_step,
    a_trace,
    an_annotation,
    an_operator,
    near,
)

from advisor.profiles.observed import Location
from advisor.profiles.ops import phases_of_trace, window_of
from advisor.profiles.recorded import OpCost, Window

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

    window = recorded(a_recording(tmp_path, again))
    forward = sum(
        op.self_ms for op in window.ops if op.name in ("aten::addmm", "aten::relu", "aten::clamp_min")
    )
    assert 0 < window.recompute_ms < forward  # of which it is about half
    plain = recorded(a_recording(tmp_path, lambda: block(batch).sum().backward()))
    assert plain.recompute_ms == 0


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
        assert (Path(location.file).name, location.function) == ("test_ops.py", "mine")
        assert location.line == mine.__code__.co_firstlineno


def test_the_phases_of_our_own_recorder_are_known(tmp_path: Path) -> None:
    import torch

    from advisor.profiles.recorder import Recorder
    from advisor.profiles.trace_file import read_trace

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


def test_the_profilers_cost_is_taken_off_what_holds_the_recorded_events() -> None:
    trace = a_trace(
        a_step(0, 0, 1000),
        an_operator("aten::linear", 100, 200), an_operator("aten::addmm", 150, 100),
        an_operator("aten::copy_", 160, 20),
    )  # fmt: skip
    window = window_of(trace, clean_step_ms=0.96)  # 40 us for four events
    costs = {op.name: op.self_ms for op in window.ops}
    assert costs == pytest.approx({"aten::linear": 0.09, "aten::addmm": 0.07, "aten::copy_": 0.02})
    assert _op(window, "aten::linear").total_ms == near(0.18)
    assert window.overhead == near(0.04 / 0.96)
    assert window.events_per_step == 4
    assert window.residual == near(0.0)


def test_what_cannot_be_taken_off_stays_as_residual() -> None:
    busy = [
        an_operator("aten::outer", 0, 1000),
        *(an_operator("aten::inner", 10 * i, 10) for i in range(100)),
    ]
    window = window_of(a_trace(a_step(0, 0, 1000), *busy), clean_step_ms=0.5)
    assert _op(window, "aten::outer").self_ms == 0
    assert 0.95 < window.residual < 1.05  # no time but that of operators without children


def test_a_window_faster_than_a_clean_step_has_no_overhead() -> None:
    window = window_of(a_trace(a_step(0, 0, 1000), an_operator("aten::mm", 0, 900)), clean_step_ms=1.25)
    assert (window.overhead, window.residual) == (0.0, near(0.2))
    assert _op(window, "aten::mm").self_ms == 0.9


def test_a_known_cost_per_event_is_used_as_it_is() -> None:
    trace = a_trace(a_step(0, 0, 100), an_operator("aten::a", 0, 50), an_operator("aten::b", 10, 20))
    window = window_of(trace, clean_step_ms=None, event_cost_us=6.0)
    assert _op(window, "aten::a").self_ms == near(0.024)


def test_times_are_means_over_steps_and_what_lies_outside_is_left_out() -> None:
    trace = a_trace(
        an_operator("aten::before", 0, 50),
        a_step(4, 100, 100), an_operator("aten::mm", 110, 40),
        a_step(5, 200, 100), an_operator("aten::mm", 210, 20), an_operator("aten::mm", 240, 20),
        an_operator("aten::after", 400, 50),
    )  # fmt: skip
    window = recorded(trace)
    assert [(op.name, op.calls, op.self_ms) for op in window.ops] == [("aten::mm", 1.5, 0.04)]
    assert (window.steps, window.step_ms) == (2, 0.1)


def test_without_annotated_steps_each_ends_with_the_optimizer() -> None:
    events = [
        event
        for begin in (0, 1000, 2000)
        for event in (
            an_operator("aten::mm", begin + 10, 100),
            a_node("MmBackward0", begin + 200, 300, sequence=1),
            an_annotation("Optimizer.step#SGD.step", begin + 600, 300),
            an_operator("aten::add_", begin + 650, 100),
        )
    ]
    trace = a_trace(*events)
    window, phases = recorded(trace), phases_of_trace(trace)
    assert window.steps == 3
    assert {op.name: op.phase for op in window.ops if "::" in op.name[:8]} == {
        "aten::mm": "forward", "aten::add_": "optimizer",
    }  # fmt: skip
    assert "each step ends with Optimizer.step#SGD.step" in window.notes[0]
    assert phases is not None
    assert (phases.forward_ms, phases.backward_ms, phases.optimizer_ms) == (near(0.1), near(0.3), near(0.3))
    assert phases.steps == 3


def test_two_optimizers_that_alternate_make_one_step() -> None:
    names = ["Optimizer.step#SGD.step", "Optimizer.step#Adam.step"] * 2
    events = [an_annotation(name, 100 * at, 50) for at, name in enumerate(names)]
    assert recorded(a_trace(an_operator("aten::mm", 0, 10), *events)).steps == 2


def test_without_any_structure_the_whole_trace_is_one_step() -> None:
    trace = a_trace(an_operator("aten::mm", 0, 100), an_operator("aten::mm", 300, 100))
    window = recorded(trace)
    assert (window.steps, window.step_ms) == (1, 0.4)
    assert "the whole trace is taken as one step" in window.notes[-1]
    assert phases_of_trace(trace) is None
    assert window_of(trace, clean_step_ms=None, steps=2).step_ms == 0.2


def test_a_trace_without_host_events_yields_an_empty_window() -> None:
    window = recorded(a_trace(a_kernel("gemm", 0, 10)))
    assert (window.steps, window.ops, window.compute_ms) == (0, (), 0.0)
    assert "no operator" in window.notes[-1]
    assert recorded(a_trace()).steps == 0


def test_on_a_device_the_time_of_an_operator_is_that_of_its_kernels() -> None:
    trace = a_trace(
        a_step(0, 0, 500),
        an_operator("aten::linear", 10, 100, [8, 4]), an_operator("aten::addmm", 20, 80, [8, 4]),
        *a_launch("gemm", 30, 200, 60, correlation=1),
        an_operator("aten::view", 120, 50, [8, 4]),
        an_operator("aten::relu", 200, 10, external=9), a_kernel("clamp", 260, 40, external=9),
    )  # fmt: skip
    window = recorded(trace)
    assert _op(window, "aten::addmm").self_ms == near(0.06)
    assert (_op(window, "aten::linear").self_ms, _op(window, "aten::linear").total_ms) == (
        0,
        near(0.06),
    )
    assert _op(window, "aten::view").self_ms == 0
    assert _op(window, "aten::relu").self_ms == near(0.04)
    assert window.compute_ms == near(0.1)


def test_a_step_lasts_until_the_device_is_done_with_it() -> None:
    trace = a_trace(a_step(0, 0, 100), an_operator("aten::mm", 10, 20), *a_launch("gemm", 15, 50, 250, 1))
    assert recorded(trace).step_ms == near(0.3)


def test_backward_of_another_thread_is_a_part_of_the_step() -> None:
    engine = ("1", "2")
    trace = a_trace(
        a_step(0, 0, 1000),
        an_operator("aten::mm", 0, 200, sequence=5),
        a_node("MmBackward0", 300, 400, sequence=5, thread=engine),
        an_operator("aten::mm", 310, 300, thread=engine),
        an_annotation("Optimizer.step#SGD.step", 800, 100),
    )
    phases = phases_of_trace(trace)
    assert phases is not None
    assert (phases.forward_ms, phases.backward_ms, phases.optimizer_ms) == (near(0.2), near(0.4), near(0.1))
    assert phases.other_ms == near(0.3)


def test_waiting_for_the_device_is_not_counted_as_computing() -> None:
    trace = a_trace(
        a_step(0, 0, 1000),
        an_operator("aten::item", 0, 500), a_call("cudaStreamSynchronize", 100, 300),
        a_node("MmBackward0", 600, 200, sequence=5),
    )  # fmt: skip
    phases = phases_of_trace(trace)
    assert phases is not None
    assert (phases.sync_ms, phases.forward_ms) == (near(0.3), near(0.2))


def test_only_the_innermost_operator_has_the_arithmetic() -> None:
    trace = a_trace(
        a_step(0, 0, 500),
        an_operator("aten::linear", 10, 100, [8, 4], [6, 4], [6]),
        an_operator("aten::addmm", 20, 80, [6], [8, 4], [4, 6]),
    )
    window = recorded(trace)
    assert (_op(window, "aten::linear").flops, _op(window, "aten::addmm").flops) == (None, 2 * 8 * 4 * 6)


def test_only_the_dearest_operators_are_kept() -> None:
    ops = [an_operator(f"aten::op{at}", 10 * at, 1 + at / 100) for at in range(300)]
    window = recorded(a_trace(a_step(0, 0, 4000), *ops))
    assert len(window.ops) == 200
    assert window.ops[0].name == "aten::op299"


def test_functions_of_libraries_are_passed_over() -> None:
    trace = a_trace(
        a_step(0, 0, 100),
        a_function("model.py(7): forward", 1, 90), a_function("nn.Module: Linear_0", 2, 80),
        a_function("torch/nn/modules/linear.py(130): forward", 3, 70),
        an_operator("aten::linear", 10, 20),
    )  # fmt: skip
    assert recorded(trace).ops[0].location == Location("model.py", 7, "forward")
