from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_builder import Event, a_function, a_recording, a_step, a_trace, an_annotation, an_operator

from advisor.profiles.traces.nesting import Host, nest
from advisor.profiles.traces.trace import Trace

SLACK_US = 0.002


def _parents(trace: Trace, host: Host) -> dict[str, str | None]:
    names = [trace.names[trace.name[row]] for row in host.rows]
    return {
        name: names[parent] if parent >= 0 else None
        for name, parent in zip(names, host.parent.tolist(), strict=True)
    }


def _by_a_stack(trace: Trace, host: Host) -> list[int]:
    """What one pass over each thread with a stack finds."""
    parents: list[int] = []
    open_ones: list[int] = []
    for at, row in enumerate(host.rows.tolist()):
        if at and trace.thread[row] != trace.thread[host.rows[at - 1]]:
            open_ones = []
        while open_ones and trace.end_us[host.rows[open_ones[-1]]] <= trace.begin_us[row] + SLACK_US:
            open_ones.pop()
        parents.append(open_ones[-1] if open_ones else -1)
        open_ones.append(at)
    return parents


@st.composite
def forests(draw: st.DrawFn) -> list[Event]:
    """Properly nested events on two threads, with gaps and without."""
    events: list[Event] = []

    def fill(begin: int, end: int, thread: str, depth: int) -> None:
        while end - begin > 2 and draw(st.booleans()):
            first = draw(st.integers(begin, end - 1))
            last = draw(st.integers(first + 1, end))
            events.append(an_operator(str(len(events)), first, last - first, thread=("1", thread)))
            if depth < 6 and last - first > 2:
                fill(first + 1, last - 1, thread, depth + 1)
            begin = last

    for thread in "12":
        fill(0, 200, thread, 0)
    return events


@given(forests())
def test_parents_are_those_that_a_stack_finds(events: list[Event]) -> None:
    trace = a_trace(*events)
    host = nest(trace)
    assert host.parent.tolist() == _by_a_stack(trace, host)
    depths = sum(len(level) for level in host.levels)
    assert depths == len(host) == len(events)


def test_a_real_recording_nests_as_a_stack_finds(tmp_path: Path) -> None:
    import torch

    weight = torch.randn(8, 8, requires_grad=True)
    trace = a_recording(tmp_path, lambda: (weight @ weight).relu().sum().backward())
    host = nest(trace)
    assert len(host) > 100
    assert host.parent.tolist() == _by_a_stack(trace, host)


def test_an_annotation_outlasts_the_function_that_makes_it() -> None:
    trace = a_trace(
        a_function("train.py(1): step", 0, 100),
        a_function("torch/autograd/profiler.py(9): __enter__", 1, 10),
        a_function("<built-in method enter>", 2, 6),
        an_annotation("advisor_forward", 4, 80),
        an_operator("aten::mm", 30, 10),
        a_function("torch/autograd/profiler.py(20): __exit__", 80, 10),
        an_operator("aten::add", 92, 3),
    )
    parents = _parents(trace, nest(trace))
    assert parents["aten::mm"] == "advisor_forward"
    assert parents["advisor_forward"] == parents["aten::add"] == "train.py(1): step"
    assert parents["<built-in method enter>"] == "torch/autograd/profiler.py(9): __enter__"


def test_an_event_that_overlaps_without_nesting_does_not_displace_those_after_it() -> None:
    trace = a_trace(
        an_operator("early", 0, 10), an_operator("overlapping", 5, 10), an_operator("later", 12, 88),
        an_operator("inner", 20, 5),
    )  # fmt: skip
    parents = _parents(trace, nest(trace))
    assert (parents["later"], parents["inner"]) == (None, "later")


def test_sums_hold_what_ran_inside() -> None:
    trace = a_trace(a_step(0, 0, 100), an_operator("a", 10, 50), an_operator("b", 20, 10))
    host = nest(trace)
    assert host.sum_up(trace.duration_us[host.rows]).tolist() == [160.0, 60.0, 10.0]


@pytest.mark.parametrize("events", [[], [an_operator("alone", 3, 0)]])
def test_hardly_anything_recorded_is_no_error(events: list[Event]) -> None:
    assert len(nest(a_trace(*events))) == len(events)


def test_around_are_events_and_all_that_they_lie_in() -> None:
    host = nest(
        a_trace(
            an_operator("outer", 0, 10), an_operator("inner", 1, 5), an_operator("innermost", 2, 1),
            an_operator("beside", 7, 1), an_operator("after", 20, 1),
        )
    )  # fmt: skip
    assert host.around(np.array([2, -1])).tolist() == [True, True, True, False, False]
