"""Two traces side by side: what was changed between them is what is told."""

import json
from pathlib import Path
from typing import Any

import pytest
from trace_builder import Event, a_function, a_launch, a_step, an_annotation, an_operator

from advisor.base.errors import UsageError
from advisor.report.pages.trace_comparison_page import lines_of, render_markdown, sentence, tables_of
from advisor.result.trace_comparison import Difference, TraceComparison
from advisor.runs.compare_traces import compare_traces

GPU = {"name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "computeMinor": 0, "totalGlobalMem": 85 * 10**9}


def steps(*, gelu_us: float = 40, wait_us: float = 100, line: int = 7, folder: str = "") -> list[Event]:
    """Two steps of 2 ms: data, a product and an activation in one function."""
    found = []
    for at in range(2):
        begin, number = 2000.0 * at, 10 * at
        found += [
            a_step(at, begin, 1990),
            an_annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin, wait_us),
            a_function(f"{folder}model.py({line}): forward", begin + 1000, 400),
            an_operator("aten::mm", begin + 1010, 50, [64, 64], [64, 64]),
            *a_launch("ampere_sgemm_128x128_tn", begin + 1020, begin + 1100, 300, number + 1),
            an_operator("aten::gelu", begin + 1100, 50, [64, 64]),
            *a_launch("gelu_kernel", begin + 1110, begin + 1400, gelu_us, number + 2),
        ]
    return found


def written(path: Path, events: list[Event], gpu: dict[str, Any] | None = GPU) -> Path:
    """The events as the file that torch.profiler would export."""
    rows = []
    for event in events:
        pid, tid = event.thread
        args = {**event.detail} | ({"correlation": event.correlation} if event.correlation else {})
        rows.append(
            {"ph": "X", "cat": event.category, "name": event.name, "pid": int(pid), "tid": int(tid),
             "ts": event.begin, "dur": event.duration, "args": args}
        )  # fmt: skip
    path.write_text(json.dumps({"deviceProperties": [gpu] if gpu else [], "traceEvents": rows}))
    return path


def compared(tmp_path: Path, **changed: Any) -> TraceComparison:
    a = written(tmp_path / "a.json", steps())
    return compare_traces(a, written(tmp_path / "b.json", steps(**changed)))


def of(name: str, found: list[Difference]) -> Difference:
    return next(each for each in found if each.name == name)


def test_a_slower_operator_is_told_with_its_kernel_and_line(tmp_path: Path) -> None:
    found = compared(tmp_path, gelu_us=240)
    first = found.operators.largest[0]
    assert (first.name, first.of, first.location) == ("aten::gelu", "forward", "model.py:7")
    assert (first.a_calls, first.b_calls) == (1, 1)
    assert first.difference_ms == pytest.approx(0.2)
    kernel = found.kernels.largest[0]
    assert (kernel.name, kernel.of, kernel.location) == ("gelu_kernel", "aten::gelu", "model.py:7")
    assert kernel.difference_ms == pytest.approx(0.2)
    assert of("elementwise", found.kinds).difference_ms == pytest.approx(0.2)
    assert of("aten::mm", found.operators.largest).difference_ms == pytest.approx(0.0)
    (line,) = [line for line in lines_of(found) if "gelu_kernel" in line]
    assert line == "  +0.200 ms  gelu_kernel (aten::gelu) in model.py:7: 0.0400 ms to 0.240 ms, 1 calls"


def test_idle_time_is_told_by_what_was_waited_for(tmp_path: Path) -> None:
    found = compared(tmp_path, wait_us=900)
    cause = max(found.idle, key=lambda each: each.difference_ms)
    assert cause.name == "input" and cause.difference_ms > 0.5
    assert of("input_wait", found.host).difference_ms == pytest.approx(0.8)
    (table,) = [rows for title, _, rows in tables_of(found) if title.endswith("device")]
    assert any(row[0] == "idle until data came" for row in table)


def test_a_line_that_moved_and_another_folder_are_the_same_place(tmp_path: Path) -> None:
    found = compared(tmp_path, line=19, folder="/home/other/")
    assert all(each.difference_ms == pytest.approx(0.0) for each in found.operators.largest)
    assert {each.a_calls for each in found.operators.largest} == {1}


def test_the_sentence_names_the_part_that_makes_most_of_the_difference(tmp_path: Path) -> None:
    alike = compared(tmp_path)
    assert sentence(alike).startswith("A step takes as long in B as in A")
    slower = alike.model_copy(deep=True)
    slower.b.step_ms, slower.step_ratio = 4.0, 2.0
    of("computing", slower.device).difference_ms = 1.9
    assert sentence(slower) == (
        f"A step takes 2.00x as long in B as in A ({slower.a.step_ms:.2f} ms and 4.00 ms); the most of it: "
        "computing, +1.90 ms."
    )


def test_what_stands_in_one_trace_alone_has_no_time_in_the_other(tmp_path: Path) -> None:
    more = [an_operator("aten::sort", 1300, 20, [64]), *a_launch("sort_kernel", 1310, 1700, 100, 99)]
    a = written(tmp_path / "a.json", steps())
    found = compare_traces(a, written(tmp_path / "b.json", steps() + more))
    kernel = found.kernels.largest[0]
    assert (kernel.name, kernel.a_ms, kernel.b_calls) == ("sort_kernel", None, 0.5)
    assert kernel.difference_ms == pytest.approx(0.05)
    assert "none to 0.0500 ms, 0 to 0.5 calls" in "\n".join(lines_of(found))


def test_names_in_markdown_are_escaped(tmp_path: Path) -> None:
    events = [an_operator("a|b<script>", 1300, 20, [64]), *a_launch("<b>|x", 1310, 1700, 100, 99)]
    a = written(tmp_path / "a.json", steps())
    text = render_markdown(compare_traces(a, written(tmp_path / "b.json", steps() + events)))
    assert text.startswith("<!-- advisor compare -->\n**")
    assert "<script>" not in text and "<b>" not in text and "a|b" not in text


def test_a_trace_is_not_compared_with_itself(tmp_path: Path) -> None:
    a = written(tmp_path / "a.json", steps())
    with pytest.raises(UsageError, match="the same trace twice"):
        compare_traces(a, tmp_path / "." / "a.json")


def test_traces_with_nothing_in_common_are_refused_with_the_reason(tmp_path: Path) -> None:
    a = written(tmp_path / "a.json", steps())
    host = written(tmp_path / "host.json", [event for event in steps() if event.category == "cpu_op"], None)
    with pytest.raises(UsageError, match=r"a\.json alone holds events of a device") as refused:
        compare_traces(a, host)
    assert refused.value.code == "not_comparable" and refused.value.hint
    other = [an_operator("aten::sort", 10, 20, [64]), *a_launch("sort_kernel", 20, 50, 100, 1)]
    with pytest.raises(UsageError, match="hardly an operator in common"):
        compare_traces(a, written(tmp_path / "other.json", other))


def test_different_devices_are_said(tmp_path: Path) -> None:
    a = written(tmp_path / "a.json", steps())
    b = written(tmp_path / "b.json", steps(), {**GPU, "name": "NVIDIA H100 PCIe"})
    text = render_markdown(compare_traces(a, b))
    assert "different devices" in text and "NVIDIA H100 PCIe" in text
