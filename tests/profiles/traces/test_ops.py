from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from trace_builder import (
    Event,
    a_call,
    a_copy,
    a_function,
    a_kernel,
    a_launch,
    a_node,
    a_step,
    a_trace,
    an_annotation,
    an_operator,
    near,
)

from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import StepPhases
from advisor.profiles.facts.recorded import OpCost, Window
from advisor.profiles.traces.event_cost import Parts
from advisor.profiles.traces.ops import phases_of_trace, window_of

recorded = partial(window_of, clean_step_ms=None)
Step = Callable[[], object]


def _op(window: Window, name: str, phase: str | None = None) -> OpCost:
    return next(op for op in window.ops if op.name == name and phase in (None, op.phase))


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


def test_a_slowdown_is_no_cost_of_events() -> None:
    """Forward has nearly all events; backward took twice its time with hardly any."""
    inside = [an_operator("aten::inner", 2 * i, 1) for i in range(100)]
    backward = an_annotation("advisor_backward", 700, 400)
    trace = a_trace(a_step(0, 0, 1100), an_operator("aten::outer", 0, 700), *inside, backward)
    clean = StepPhases(step_ms=0.5, forward_ms=0.3, backward_ms=0.2)
    slower = StepPhases(step_ms=1.1, forward_ms=0.7, backward_ms=0.4)
    plain = window_of(trace, clean_step_ms=0.5)
    window = window_of(trace, clean_step_ms=0.5, parts=Parts(clean, slower))
    assert _op(plain, "aten::outer").self_ms < 0.1  # 0.6 ms are taken for the cost of 102 events
    assert 0.45 < _op(window, "aten::outer").self_ms < 0.55
    assert window.overhead == plain.overhead == near(1.2)
    assert window.residual < 0.1


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
    phases = phases_of_trace(trace)
    assert phases is not None and (phases.steps, phases.step_ms) == (1, 0.4)
    assert window_of(trace, clean_step_ms=None, steps=2).step_ms == 0.2


def a_pass(begin: float, layers: int = 3) -> list[Event]:
    """Operators of one forward pass: an embedding, alike layers, a loss."""
    ops = ["aten::embedding", *["aten::linear", "aten::relu", "aten::add"] * layers, "aten::nll_loss"]
    return [an_operator(name, begin + 20 * at, 15) for at, name in enumerate(ops)]


def test_without_annotations_a_step_begins_where_the_operators_come_again() -> None:
    events = [event for begin in (0, 1000, 2000, 3000) for event in a_pass(begin)]
    inner = [an_operator("aten::addmm", begin + 21, 5) for begin in (0, 2000)]
    window, phases = (found := recorded(a_trace(*events, *inner))), phases_of_trace(a_trace(*events))
    assert (window.steps, window.step_ms) == (4, near((3000 + 215) / 4000))
    assert "each step begins where the same 11 operators come again" in found.notes[-1]
    assert phases is not None and phases.steps == 4


def test_a_pass_lasts_until_the_next_begins_or_the_recording_ends() -> None:
    engine = an_operator("aten::mm", 2500, 300, thread=("1", "2"))
    trace = a_trace(*(event for begin in (0, 1000, 2000) for event in a_pass(begin)), engine)
    assert recorded(trace).step_ms == near(2.8 / 3)


def test_alike_passes_of_which_one_took_far_longer_are_one_window() -> None:
    trace = a_trace(*(event for begin in (0, 90_000, 91_000, 92_000) for event in a_pass(begin)))
    assert recorded(trace).steps == 1


def test_a_last_pass_that_is_incomplete_is_no_step() -> None:
    events = [event for begin in (0, 1000, 2000) for event in a_pass(begin)] + a_pass(3000)[:4]
    assert recorded(a_trace(*events)).steps == 3


def test_alike_layers_of_one_pass_are_no_steps() -> None:
    assert recorded(a_trace(*a_pass(0, layers=40))).steps == 1
    two = [*a_pass(0, layers=40), *a_pass(9000, layers=40)]
    assert recorded(a_trace(*two)).steps == 1


def test_a_last_step_that_the_recording_cut_is_left_out() -> None:
    whole = [a_step(at, 100.0 * at, 99.0) for at in range(4)]
    ops = [an_operator("aten::mm", 100.0 * at + 10 * each, 5) for at in range(4) for each in range(5)]
    cut = recorded(a_trace(*whole, *ops, a_step(4, 400, 10)))
    assert (cut.steps, cut.step_ms) == (4, near(0.099))
    assert "the last step is cut short and left out" in cut.notes
    quick = [an_operator("aten::mm", 400.0 + each, 1) for each in range(5)]
    assert recorded(a_trace(*whole, *ops, a_step(4, 400, 10), *quick)).steps == 5


def test_the_last_step_of_a_file_that_is_cut_off_is_left_out() -> None:
    trace = a_trace(*[a_step(at, 100.0 * at, 99.0) for at in range(3)], an_operator("aten::mm", 0, 50))
    assert (recorded(replace(trace, cut=True)).steps, recorded(trace).steps) == (2, 3)


def test_a_device_beside_which_no_operator_was_recorded_is_one_window() -> None:
    window = recorded(a_trace(*a_launch("gemm", 0, 10, 40, 1), *a_launch("gemm", 80, 90, 10, 2)))
    assert window.steps == 1 and window.device is not None
    assert window.device.idle_share == near(0.4 / 0.9)


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


def test_copies_to_ordinary_memory_make_the_host_wait() -> None:
    trace = a_trace(
        a_step(0, 0, 1000),
        an_operator("aten::to", 0, 500),
        *a_copy("Memcpy DtoH (Device -> Pageable)", 10, 300, 5, 1, 4),
        a_node("MmBackward0", 600, 200, sequence=5),
    )
    phases = phases_of_trace(trace)
    assert phases is not None
    assert (phases.sync_ms, phases.forward_ms) == (near(0.002), near(0.498))


def test_exchanging_with_other_processes_is_no_computing() -> None:
    trace = a_trace(
        a_step(0, 0, 1000),
        a_node("MmBackward0", 0, 500, sequence=5),
        an_operator("record_param_comms", 10, 100),
        *a_launch("ncclDevKernel_AllReduce_Sum_f32", 20, 50, 300, 1),
        an_operator("aten::mm", 200, 100), *a_launch("gemm", 210, 400, 70, 2),
    )  # fmt: skip
    window = recorded(trace)
    assert window.compute_ms == near(0.07)
    assert (_op(window, "record_param_comms").phase, _op(window, "aten::mm").phase) == ("other", "backward")


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


@pytest.mark.parametrize(("name", "wrapped"), [("DistributedDataParallel.forward", True), ("forward", False)])
def test_a_range_of_torchs_own_wrapper_is_seen(name: str, wrapped: bool) -> None:
    trace = a_trace(a_step(0, 0, 1000), an_annotation(name, 5, 500), an_operator("aten::mm", 10, 50))
    assert window_of(trace, clean_step_ms=None).wrapped is wrapped
