"""Traces that torch 1.8 to 1.10 wrote."""

import json
from pathlib import Path
from typing import Any

import pytest
from trace_builder import a_call, a_kernel, a_step, a_trace, an_operator

from advisor.profiles.traces.calls import BACKWARD, LOADER, OPTIMIZER, calls_of
from advisor.profiles.traces.reading import read_trace
from advisor.runs.profile_traces import profile_traces

LAUNCHES = {"aten::conv2d": 100, "ReluBackward1": 300, "torch::autograd::AccumulateGrad": 350}


def _event(category: str, name: str, ts: int, dur: int, tid: str = "1", **arguments: Any) -> dict[str, Any]:
    pid = 0 if tid.startswith("stream") else 1
    return {
        "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur,
        "args": arguments,
    }  # fmt: skip


def _step(number: int, begin: int) -> list[dict[str, Any]]:
    """A step of 1 ms that loads, computes forward, backward on another thread, and updates."""
    names = [
        (f"ProfilerStep#{number}", 0, 1000, "1"), ("enumerate(DataLoader)#_Iter.__next__", 10, 60, "1"),
        ("aten::stack", 20, 30, "1"), ("aten::conv2d", 100, 50, "1"), ("ReluBackward1", 300, 40, "2"),
        ("torch::autograd::AccumulateGrad", 350, 20, "2"), ("Optimizer.step#SGD.step", 500, 80, "1"),
        ("aten::add_", 510, 20, "1"),
    ]  # fmt: skip
    events = [_event("Operator", name, begin + at, dur, tid) for name, at, dur, tid in names]
    for place, (name, at) in enumerate(LAUNCHES.items()):
        tid = next(thread for each, _, _, thread in names if each == name)
        link = 1 + 10 * number + place  # 0 is none
        events += [
            _event("Runtime", "cudaLaunchKernel", begin + at + 2, 5, tid, correlation=link),
            _event("Kernel", f"kernel_{place}", begin + at + 8, 100, "stream 7", correlation=link),
        ]
    events.append(_event("Memset", "Memset (Device)", begin + 900, 3, "stream 7"))
    return events


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """Three steps in the form of torch 1.8."""
    path = tmp_path / "older.json"
    events = [each for number in range(3) for each in _step(number, 1000 * number)]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def test_older_categories_are_those_of_today(older: Path) -> None:
    trace = read_trace(older)
    assert trace.of("kernel").sum() == trace.of("cuda_runtime").sum() == 9
    assert trace.of("gpu_memset").sum() == 3
    ranges = {trace.names[at] for at in trace.name[trace.of("user_annotation")].tolist()}
    assert ranges == {
        *(f"ProfilerStep#{number}" for number in range(3)),
        "enumerate(DataLoader)#_Iter.__next__", "Optimizer.step#SGD.step",
    }  # fmt: skip


def test_steps_and_phases_of_older_traces_are_found(older: Path) -> None:
    calls = calls_of(read_trace(older))
    assert calls is not None and calls.steps.count == 3 and calls.steps.exact
    names = [calls.trace.names[at] for at in calls.name.tolist()]
    phase = dict(zip(names, calls.phase.tolist(), strict=True))
    assert phase["aten::stack"] == LOADER and phase["aten::add_"] == OPTIMIZER
    backward = {name for name, each in phase.items() if each == BACKWARD and name != "cudaLaunchKernel"}
    assert backward == {
        "autograd::engine::evaluate_function: ReluBackward1",
        "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
    }


def test_what_the_device_did_in_an_older_trace_is_told(older: Path) -> None:
    profile = profile_traces([older], ("profile",)).profile
    assert profile.device_ms["computing"] == pytest.approx(0.253, abs=1e-6)


def test_nodes_that_stand_within_their_evaluation_keep_their_names(tmp_path: Path) -> None:
    path = tmp_path / "between.json"
    outer = "autograd::engine::evaluate_function: ReluBackward1"
    events = [_event("Operator", outer, 0, 10), _event("Operator", "ReluBackward1", 1, 8)]
    path.write_text(json.dumps({"traceEvents": events}))
    trace = read_trace(path)
    assert sorted(trace.names) == sorted((outer, "ReluBackward1"))


def test_the_stack_of_an_operator_gives_its_line(tmp_path: Path) -> None:
    path = tmp_path / "stack.json"
    stack = (
        "/x/site-packages/torch/nn/modules/conv.py(440): forward;train.py(46): step;train.py(60): <module>"
    )
    arguments = {"Call stack": stack}
    events = [
        _event("Operator", "aten::conv2d", 0, 90, **arguments), _event("Operator", "aten::zero_", 10, 20),
        _event("Operator", "aten::add", 100, 90),
    ]  # fmt: skip
    path.write_text(json.dumps({"traceEvents": events}))
    calls = calls_of(read_trace(path))
    assert calls is not None
    assert [str(calls.place(position) or "") for position in range(3)] == [
        "train.py:46", "train.py:46", "",
    ]  # fmt: skip


def test_calls_and_kernels_of_rocm_are_joined_by_an_id_that_is_no_operators() -> None:
    """Public traces of MI300X hold no ``correlation``, and operators count ids of their own."""
    calls = calls_of(
        a_trace(
            a_step(0, 0, 1000),
            an_operator("aten::mm", 10, 20, external=1537),
            an_operator("aten::add", 40, 20, external=81),
            a_call("hipExtModuleLaunchKernel", 15, 3, external=81),
            a_kernel("Cijk_Ailk_Bljk_BBS", 100, 50, external=81),
        )
    )
    assert calls is not None
    names = calls.trace.names
    assert [names[calls.name[at]] for at in calls.launched_by.tolist()] == ["hipExtModuleLaunchKernel"]
    assert [names[calls.name[at]] for at in calls.kernel_owner.tolist()] == ["aten::mm"]
