"""Traces as torch.profiler and its users leave them behind: whole, cut, odd and wrong."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from shared_data import shared
from trace_files import a_file

from advisor.base.errors import UsageError
from advisor.result.document import Finding
from advisor.runs.profile_traces import profile_traces

RANGE = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def a_span(name: str, begin_ms: float, length_ms: float, category: str = "cpu_op") -> dict[str, Any]:
    return {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": 1000 * begin_ms,
        "dur": 1000 * length_ms, "args": {},
    }  # fmt: skip


def some_steps(
    iterator: str = "_MultiProcessingDataLoaderIter", *, marked: bool = True
) -> list[dict[str, Any]]:
    """Six steps of 30 ms that wait 12 ms for their batch."""
    events = []
    for at in range(6):
        begin = 30.0 * at
        events += [
            a_span(f"ProfilerStep#{at}", begin, 30, "user_annotation"),
            a_span(RANGE, begin, 12, "user_annotation"),
            a_span("aten::addmm", begin + 12, 17),
        ]
    return events


def found_in(*paths: Path) -> dict[str, Finding]:
    result = profile_traces(paths, ("profile",))
    return {each.rule: each for each in result.findings if each.state in ("opportunity", "diagnostic")}


def test_the_wait_for_data_of_a_trace_is_found_without_a_loader_to_look_at(tmp_path: Path) -> None:
    path = a_file(tmp_path, some_steps())
    finding = found_in(path)["input_bound"]
    assert finding.title == "40 % of each step waits for data"
    assert finding.severity == "high"
    assert profile_traces([path], ("profile",)).profile.summary == finding.title


def test_the_same_is_found_where_events_are_doubled_or_the_file_is_cut(tmp_path: Path) -> None:
    events = some_steps()
    assert found_in(a_file(tmp_path, events[::-1] + events[3:9]))["input_bound"].title.startswith("40 %")
    text = json.dumps({"traceEvents": events})
    assert found_in(a_file(tmp_path, text[: int(0.7 * len(text))]))["input_bound"].title.startswith("40 %")


def manifest(folder: Path) -> list[dict[str, Any]]:
    """Make the zoo in a folder."""
    path = shared("field_cases", "14_trace_zoo", "make_traces.py")
    spec = importlib.util.spec_from_file_location("make_traces", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["make_traces.py", str(folder)])
        module.main()
    listed: list[dict[str, Any]] = json.loads((folder / "manifest.json").read_text())
    return listed


def test_every_animal_of_the_zoo_is_read_as_it_should(tmp_path: Path) -> None:
    cases = manifest(tmp_path)
    assert len(cases) == 22
    for case in cases:
        paths = [tmp_path / name for name in case["files"]]
        try:
            found = found_in(*paths)
        except UsageError as error:
            assert "message" in case["outcome"], (case, error)
            assert any(path.name in str(error) for path in paths)
            continue
        assert "findings" in case["outcome"], case
        assert next(iter(found)) == "input_bound", case
        assert set(found) <= {"input_bound", "optimizer_bound"}, case
        assert 0.39 <= found["input_bound"].evidence["input_wait_ms"] / 29.9 <= 0.41, case
        assert found["input_bound"].title == "39 % of each step waits for data", case
