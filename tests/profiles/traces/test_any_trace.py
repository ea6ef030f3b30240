"""Whatever a trace holds, its analysis ends with facts that make sense."""

import math
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_builder import DEVICE, Event, a_trace

from advisor.profiles.traces.device.device_timeline import sync_points
from advisor.profiles.traces.device.rank_times import ranks_of
from advisor.profiles.traces.ops import phases_of_trace, window_of
from advisor.profiles.traces.trace import CATEGORIES

NAMES = (
    "ProfilerStep#1", "advisor_step#0", "advisor_forward", "advisor_logging", "Optimizer.step#Adam.step",
    "Optimizer.zero_grad#Adam.zero_grad", "enumerate(DataLoader)#Iter.__next__", "aten::mm", "aten::add",
    "aten::select", "aten::softmax", "aten::matmul", "aten::copy_", "aten::_to_copy", "aten::to",
    "aten::zero_",
    "aten::item", "aten::conv2d", "aten::convolution_backward", "aten::_flash_attention_forward",
    "aten::scaled_dot_product_attention", "aten::einsum", "aten::zeros", "cudaLaunchKernel", "cudaFree",
    "autograd::engine::evaluate_function: AddmmBackward0", "CheckpointFunctionBackward", "cudaMemcpyAsync",
    "cudaStreamSynchronize", "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)",
    "ncclDevKernel_AllReduce_Sum_f32", "gloo:all_reduce", "train.py(3): step", "torch/nn.py(1): f",
    "nchwToNhwc",
    "", "nested(1): (2): x",
)  # fmt: skip

SHAPES = st.recursive(st.integers(-3, 70), lambda inner: st.lists(inner, max_size=4), max_leaves=12)
ANYTHING = (
    st.none() | st.integers(-1, 2**70) | st.text(max_size=3) | st.lists(st.text(max_size=3), max_size=3)
)
DETAILS = st.fixed_dictionaries(
    {},
    optional={
        "Input Dims": st.lists(SHAPES, max_size=5) | ANYTHING,
        "Input type": st.lists(st.sampled_from(["float", "long int", "Scalar", "", "x"]), max_size=5)
        | ANYTHING,
        "Concrete Inputs": st.lists(st.sampled_from(["", "[2, 2]", "[0]", "True", "same"]), max_size=9)
        | ANYTHING,
        "Sequence number": st.integers(-2, 9),
        "Fwd thread id": st.integers(0, 1),
        "bytes": st.integers(0, 9) | ANYTHING,
        "In msg nelems": st.integers(0, 9) | ANYTHING,
        "dtype": st.sampled_from(["Float", "?"]) | ANYTHING,
    },
)
EVENTS = st.builds(
    Event,
    category=st.sampled_from(CATEGORIES),
    name=st.sampled_from(NAMES),
    begin=st.integers(0, 60).map(float) | st.floats(0, 60),
    duration=st.integers(0, 30).map(float) | st.floats(0, 60),
    thread=st.sampled_from([("1", "1"), ("1", "2"), DEVICE, ("9", "7")]),
    correlation=st.integers(0, 5),
    external=st.integers(0, 5),
    detail=DETAILS,
)


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for each in value.values() for number in _numbers(each)]
    if isinstance(value, list | tuple):
        return [number for each in value for number in _numbers(each)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, max_size=25), st.none() | st.floats(0.001, 1))
def test_facts_are_finite_and_shares_are_shares(events: list[Event], clean_step_ms: float | None) -> None:
    trace = a_trace(*events)
    window, phases = window_of(trace, clean_step_ms=clean_step_ms), phases_of_trace(trace)
    facts = [window, phases, *sync_points(trace), *(ranks_of([trace, trace]) or ())]
    for fact in facts:
        if fact is not None:
            assert all(math.isfinite(number) for number in _numbers(asdict(fact)))
    assert all(op.self_ms >= 0 for op in window.ops)
    assert sum(op.self_ms for op in window.ops if op.phase in ("forward", "backward", "optimizer")) == (
        pytest.approx(window.compute_ms)
    )
    device = window.device
    if device is not None:
        shares = [device.busy_share, device.idle_share, device.launch_share, device.short_kernels]
        shares += [copies.overlapped for copies in device.copies]
        assert all(-1e-9 <= share <= 1 + 1e-9 for share in shares)
