import json
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest
import torch

from advisor.profiles.hooks import recorder as recording
from advisor.profiles.hooks.recorder import Recorder, can_mark, plan
from advisor.profiles.traces.ops import window_of
from advisor.profiles.traces.reading import read_trace


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        hidden = self.inner(batch)
        summed: torch.Tensor = hidden.exp().sum()
        return summed


def record(path: Path, *, places: bool) -> None:
    model = Net()
    recorder = Recorder(path, places=places)
    recorder.start()
    for step in range(3):
        recorder.enter("forward")
        loss = model(torch.ones(4, 8))
        recorder.leave()
        loss.backward()
        if step < 2:
            recorder.step()
    recorder.stop()


def test_a_window_has_as_many_steps_as_were_recorded(tmp_path: Path) -> None:
    record(tmp_path / "trace.json", places=False)
    window = window_of(read_trace(tmp_path / "trace.json"), clean_step_ms=None)
    assert window.steps == 3
    assert {op.phase for op in window.ops if op.name == "aten::addmm"} == {"forward"}


def test_marked_operators_are_found_at_the_line_that_called_them(tmp_path: Path) -> None:
    record(tmp_path / "trace.json", places=True)
    window = window_of(read_trace(tmp_path / "trace.json"), clean_step_ms=None)
    lines = Path(__file__).read_text().splitlines()
    exp = next(op for op in window.ops if op.name == "aten::exp")
    product = next(op for op in window.ops if op.name == "aten::addmm")
    assert exp.location is not None and product.location is not None
    assert exp.location.file == __file__ and "hidden.exp()" in lines[exp.location.line - 1]
    assert "self.inner(batch)" in lines[product.location.line - 1]
    assert exp.phase == product.phase == "forward"


def test_marks_are_gone_after_the_window(tmp_path: Path) -> None:
    record(tmp_path / "first.json", places=True)
    record(tmp_path / "second.json", places=False)
    names = {event["name"] for event in json.loads((tmp_path / "second.json").read_text())["traceEvents"]}
    assert not [name for name in names if name.startswith("user_line")]


def test_the_more_events_a_step_has_the_fewer_steps_are_recorded() -> None:
    few, many = plan(100.0)[0].steps, plan(50_000.0)[0].steps
    assert few == 20 and many < 10
    assert plan(1_000_000.0)[0].steps == 1


def test_whole_periods_of_several_optimizers_are_recorded() -> None:
    assert plan(60_000.0, period=4)[0].steps % 4 == 0


def test_places_are_marked_in_a_window_of_their_own_unless_there_are_too_many_events() -> None:
    assert [each.places for each in plan(1000.0)] == [False, True]
    assert [each.places for each in plan(100_000.0)] == [False, False]
    assert [plan(events, period=2)[1].steps for events in (1000.0, 100_000.0)] == [4, 2]
    assert [each.shapes for each in plan(1000.0)] == [False, True]


def test_no_mode_comes_or_goes_where_torch_has_taken_them_off() -> None:
    assert can_mark("optimizer") and not can_mark("backward")
    with torch.device("cpu"):
        assert not can_mark("optimizer")


def test_what_the_profiler_is_spared_is_missing_in_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(name: str) -> Counter[tuple[str, ...]]:
        record(tmp_path / name, places=True)
        events = json.loads((tmp_path / name).read_text())["traceEvents"]
        return Counter(
            (event["ph"], event.get("cat", ""), event["name"], *sorted(event.get("args", {})))
            for event in events
        )

    record(tmp_path / "first.json", places=True)  # the first one has work that later ones have not
    spared = found("spared.json")
    monkeypatch.setattr(recording, "_sparing", lambda cuda: None)
    assert spared == found("all.json")
    forward = ("X", "user_annotation", "advisor_forward", "Ev Idx", "External id", "Record function id")
    assert spared[forward] == 3


def test_a_phase_is_marked_by_functions_in_c(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "trace.json")
    calls: list[str] = []

    def called(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    recorder.start()
    sys.setprofile(called)
    try:
        recorder.enter("forward")
        recorder.leave()
    finally:
        sys.setprofile(None)
    recorder.stop()
    assert calls == ["enter", "leave"]
