"""Shapes from a second window, joined to the operators of the one that is timed."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from advisor.profiles.facts.recorded import OpCost
from advisor.profiles.hooks.recorder import Recorder
from advisor.profiles.traces.ops import window_of
from advisor.profiles.traces.reading import read_trace
from advisor.profiles.traces.shaping import joined, with_shapes
from advisor.profiles.traces.trace import Trace


class Program:
    """Two linear layers; every other step may call one more."""

    def __init__(self) -> None:
        self.layers = [nn.Linear(8, 32), nn.Linear(32, 8), nn.Linear(8, 8)]
        self.inputs = torch.randn(4, 8)

    def step(self, extra: bool) -> None:
        output = self.layers[1](self.layers[0](self.inputs).relu())
        if extra:
            output = self.layers[2](output)
        output.sum().backward()


def recorded(path: Path, extra: list[bool], *, shapes: bool, places: bool = False) -> Trace:
    program = Program()
    program.step(False)
    recorder = Recorder(path, shapes=shapes, places=places)
    recorder.start()
    for number, each in enumerate(extra):
        if number:
            recorder.step()
        program.step(each)
    recorder.stop()
    return read_trace(path)


@pytest.fixture
def plain(tmp_path: Path) -> Trace:
    return recorded(tmp_path / "plain.json", [False] * 4, shapes=False)


def multiplied(ops: tuple[OpCost, ...]) -> dict[object, tuple[float, float | None]]:
    return {
        (op.phase, op.shapes): (op.calls, op.flops) for op in ops if op.name in ("aten::addmm", "aten::mm")
    }


def test_operators_get_the_shapes_that_a_window_with_them_has(plain: Trace, tmp_path: Path) -> None:
    assert not window_of(plain, clean_step_ms=None).with_shapes
    shaped = recorded(tmp_path / "shaped.json", [False] * 2, shapes=True)
    window = window_of(with_shapes(plain, shaped), clean_step_ms=None)
    assert window.with_shapes and window.steps == 4
    assert multiplied(window.ops) == multiplied(window_of(shaped, clean_step_ms=None).ops)
    assert any(flops for _, flops in multiplied(window.ops).values())


def test_times_stay_those_of_the_timed_window(plain: Trace, tmp_path: Path) -> None:
    shaped = recorded(tmp_path / "shaped.json", [False] * 2, shapes=True)
    whole = with_shapes(plain, shaped)
    assert (whole.begin_us == plain.begin_us).all() and (whole.duration_us == plain.duration_us).all()
    assert len(whole) == len(plain)


def test_steps_are_matched_by_how_often_they_call_an_operator(tmp_path: Path) -> None:
    timed = recorded(tmp_path / "timed.json", [False, True, False, True], shapes=False)
    shaped = recorded(tmp_path / "shaped.json", [True, False], shapes=True)
    window = window_of(with_shapes(timed, shaped), clean_step_ms=None)
    calls = {op.shapes[1:3]: op.calls for op in window.ops if op.name == "aten::addmm"}
    assert calls == {((4, 8), (8, 32)): 1.0, ((4, 32), (32, 8)): 1.0, ((4, 8), (8, 8)): 0.5}


def test_inputs_stay_unknown_where_no_step_called_an_operator_as_often(tmp_path: Path) -> None:
    timed = recorded(tmp_path / "timed.json", [True] * 2, shapes=False)
    shaped = recorded(tmp_path / "shaped.json", [False] * 2, shapes=True)
    window = window_of(with_shapes(timed, shaped), clean_step_ms=None)
    assert all(op.shapes == () for op in window.ops if op.name == "aten::addmm")
    relu = next(op for op in window.ops if op.name == "aten::relu")
    assert relu.shapes == ((4, 32),)


def test_a_trace_without_steps_is_left_as_it_was(plain: Trace, tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    path.write_text(json.dumps({"traceEvents": [kernel]}))
    assert with_shapes(plain, read_trace(path)) is plain


def test_places_come_from_the_window_beside(plain: Trace, tmp_path: Path) -> None:
    beside = recorded(tmp_path / "beside.json", [False] * 2, shapes=True, places=True)
    window = joined(plain, [beside], clean_step_ms=1.0)
    assert window.with_stacks and window.with_shapes
    assert any(op.location and op.location.file.endswith("test_shaping.py") for op in window.ops)
    assert joined(plain, [], clean_step_ms=1.0).with_stacks is False


def test_steps_that_call_no_operator_have_no_shapes(tmp_path: Path) -> None:
    traces = []
    for number, shapes in enumerate((False, True)):
        recorder = Recorder(tmp_path / f"empty{number}.json", shapes=shapes)
        recorder.start()
        for step in range(4):
            if step == 0:
                torch.ones(3) @ torch.ones(3)
            recorder.step()
        recorder.stop()
        traces.append(read_trace(tmp_path / f"empty{number}.json"))
    timed, shaped = traces
    assert with_shapes(timed, shaped).names == timed.names


def test_a_step_may_have_more_different_inputs_than_two_bytes_count(tmp_path: Path) -> None:
    whole, calls, traces = torch.zeros(2**15 + 100), 2**15 + 50, []
    for shapes in (False, True):
        recorder = Recorder(tmp_path / f"many{shapes}.json", shapes=shapes)
        recorder.start()
        for count in range(1, calls + 1):
            whole[:count].sum()
        recorder.stop()
        traces.append(read_trace(recorder._path))
    shaped = with_shapes(*traces)
    assert int(shaped.detail.max()) == len(shaped.details) - 1 > 2**15
    sums = [row for row in range(len(shaped)) if shaped.names[shaped.name[row]] == "aten::sum"]
    inputs = {str(shaped.details[shaped.detail[row]]["Input Dims"][0]) for row in sums}
    assert inputs == {f"[{count}]" for count in range(1, calls + 1)}
