"""What is read from sound trace files."""

import gc
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from trace_files import OP, a_file, record, rows_by_json, rows_of

from advisor.base.errors import UsageError
from advisor.profiles.traces import unpacking
from advisor.profiles.traces.reading import read_trace
from advisor.profiles.traces.trace import CATEGORIES

RECORDINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "shapes": {"record_shapes": True},
    "stacks": {"record_shapes": True, "with_stack": True, "with_modules": True, "with_flops": True},
    "memory": {"profile_memory": True},
    "threads": {"experimental_config": torch._C._profiler._ExperimentalConfig(profile_all_threads=True)},
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recorded")
    paths = {name: folder / f"{name}.json" for name in RECORDINGS}
    for name, flags in RECORDINGS.items():
        record(paths[name], **flags)
    return paths


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_real_trace_is_read_as_json_reads_it(recorded: dict[str, Path], name: str) -> None:
    trace = read_trace(recorded[name])
    assert sorted(rows_of(trace)) == rows_by_json(recorded[name].read_bytes())
    assert trace.notes == ()


def test_operators_of_several_threads_are_told_apart(recorded: dict[str, Path]) -> None:
    trace = read_trace(recorded["threads"])
    assert len(set(trace.thread[trace.of("cpu_op")].tolist())) > 1


def test_what_stands_around_the_events_is_kept(recorded: dict[str, Path]) -> None:
    found = json.loads(recorded["shapes"].read_bytes())
    del found["traceEvents"]
    assert read_trace(recorded["shapes"]).info == found


def test_a_gzipped_trace_is_known_by_its_first_bytes(recorded: dict[str, Path], tmp_path: Path) -> None:
    content = recorded["shapes"].read_bytes()
    middle = len(content) // 2
    packed = a_file(tmp_path, gzip.compress(content[:middle]) + gzip.compress(content[middle:]))
    assert rows_of(read_trace(packed)) == rows_of(read_trace(recorded["shapes"]))


def test_a_bare_list_of_events_is_a_trace(recorded: dict[str, Path], tmp_path: Path) -> None:
    found = json.loads(recorded["stacks"].read_bytes())
    bare = a_file(tmp_path, json.dumps(found["traceEvents"]))
    trace = read_trace(bare)
    assert rows_of(trace) == rows_of(read_trace(recorded["stacks"]))
    assert (trace.info, trace.notes) == ({}, ())


def test_a_byte_order_mark_is_no_part_of_the_trace(tmp_path: Path) -> None:
    assert len(read_trace(a_file(tmp_path, b"\xef\xbb\xbf" + json.dumps([OP]).encode()))) == 1


def test_events_are_sorted_and_an_outer_one_precedes_the_inner_one_that_begins_with_it(
    tmp_path: Path,
) -> None:
    times = [(5, 1), (2, 1), (2, 9), (2, 4), (1, 0), (7, 3), (7, 3)]
    events = [{**OP, "name": f"op{at}", "ts": ts, "dur": dur} for at, (ts, dur) in enumerate(times)]
    trace = read_trace(a_file(tmp_path, events))
    assert [(row[0], -row[1]) for row in rows_of(trace)] == [
        (1, 0), (2, 9), (2, 4), (2, 1), (5, 1), (7, 3), (7, 3),
    ]  # fmt: skip


def test_columns_have_the_types_that_they_promise(tmp_path: Path) -> None:
    trace = read_trace(a_file(tmp_path, [OP]))
    assert {trace.begin_us.dtype, trace.duration_us.dtype} == {np.dtype(np.float64)}
    numbers = (trace.name, trace.thread, trace.detail, trace.correlation, trace.external, trace.sequence)
    assert {each.dtype for each in numbers} == {np.dtype(np.int16)}
    for far, kind in ((-(2**20), np.int32), (2**40, np.int64), (2**63 - 1, np.int64), (-(2**63), np.int64)):
        trace = read_trace(a_file(tmp_path, [{**OP, "args": {"External id": far}}]))
        assert trace.external.tolist() == [far] and trace.external.dtype == np.dtype(kind)
    assert trace.recording.dtype == np.bool_
    assert trace.category.dtype == np.uint8


def test_equal_details_are_one(tmp_path: Path) -> None:
    without = {key: value for key, value in OP.items() if key != "args"}
    numbered = {**OP, "args": {**OP["args"], "Sequence number": 5, "Fwd thread id": 1}}
    trace = read_trace(a_file(tmp_path, [OP, {**OP, "name": "aten::bmm"}, without, numbered]))
    shapes = {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}
    assert trace.detail.tolist() == [0, 0, -1, 0]
    assert trace.details == [shapes]
    assert (trace.sequence.tolist(), trace.recording.tolist()) == ([-1, -1, -1, 5], [True, True, True, False])


def test_the_rank_is_read_where_the_file_says_it(tmp_path: Path) -> None:
    ranks = [
        read_trace(a_file(tmp_path, {"traceEvents": [OP], "distributedInfo": info})).rank
        for info in ({"rank": 3}, {"rank": "x"}, {}, None)
    ]
    assert ranks == [3, None, None, None]


def test_numbers_may_be_written_as_text(tmp_path: Path) -> None:
    texts = {**OP, "ts": "10.5", "dur": "2.25", "pid": "1", "tid": "2"}
    assert rows_of(read_trace(a_file(tmp_path, [texts]))) == rows_of(read_trace(a_file(tmp_path, [OP])))


def test_a_thread_with_a_number_and_the_same_as_text_are_one(tmp_path: Path) -> None:
    trace = read_trace(a_file(tmp_path, [OP, {**OP, "tid": "2"}, {**OP, "pid": "Spans"}]))
    assert trace.threads == [("1", "2"), ("Spans", "2")]


texts = st.text(st.characters(codec="utf-8"), max_size=12)
numbers = st.one_of(st.integers(0, 2**50), st.floats(0, 2**50))
dims = st.lists(st.one_of(st.lists(st.integers(0, 9), max_size=3), st.just([[1], [2]])), max_size=3)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "External id": st.integers(-(2**63), 2**63 - 1),
        "correlation": st.integers(0, 2**32),
        "Input Dims": dims,
        "Input type": st.lists(texts, max_size=3),
        "Concrete Inputs": st.lists(texts, max_size=2),
        "Sequence number": st.integers(0, 99),
        "Fwd thread id": st.integers(0, 2),
        "stream": st.integers(0, 20),
        "Process Group Name": texts,
        "Collective name": st.none() | texts,
        "unknown": st.recursive(texts, lambda inner: st.dictionaries(texts, inner) | st.lists(inner)),
    },
)
events = st.fixed_dictionaries(
    {
        "ph": st.sampled_from("XXXXXisfMC"),
        "cat": st.sampled_from((*CATEGORIES, "Trace", "fwdbwd")),
        "name": texts,
        "pid": st.integers() | texts,
        "tid": st.integers() | texts,
        "ts": numbers,
        "dur": numbers,
    },
    optional={"args": arguments, "id": st.integers(), "bp": texts},
)
quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)


DELETE_TWICE = [{**OP, "dur": 1, "args": {"Input type": ["\x7f"]}}] * 2
PYTHON = [{**OP, "cat": "python_function", "args": {"External id": 1, "Python id": 7}}]


@quick
@example(found=DELETE_TWICE, block=1 << 18, spaced=False, escaped=True)
@example(found=DELETE_TWICE, block=50, spaced=True, escaped=False)
@example(found=PYTHON, block=1 << 18, spaced=False, escaped=True)
@given(
    found=st.lists(events, max_size=30),
    block=st.sampled_from((50, 333, 1 << 18)),
    spaced=st.booleans(),
    escaped=st.booleans(),
)
def test_any_sound_trace_is_read_as_json_reads_it(
    tmp_path: Path, found: list[dict[str, Any]], block: int, spaced: bool, escaped: bool
) -> None:
    content = {"schemaVersion": 1, "traceEvents": [OP, *found], "traceName": "x"}
    text = json.dumps(content, indent=2 if spaced else None, ensure_ascii=escaped)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpacking, "BLOCK", block)
        trace = read_trace(a_file(tmp_path, text))
    expected = rows_by_json(text.encode())
    once = [row for at, row in enumerate(expected) if row[1] == 0 or row not in expected[:at]]
    assert sorted(rows_of(trace)) == once
    assert bool(trace.notes) is (len(once) < len(expected))
    assert trace.info == {"schemaVersion": 1, "traceName": "x"}


def test_events_given_twice_count_once_unless_they_have_no_duration(tmp_path: Path) -> None:
    other, instant = {**OP, "args": {**OP["args"], "External id": 8}}, {**OP, "ts": 40, "dur": 0}
    trace = read_trace(a_file(tmp_path, [OP, other, instant, OP, instant, other, OP]))
    assert sorted(trace.external.tolist()) == [7, 7, 7, 8]
    assert trace.notes == ("3 events skipped: given twice",)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("escaped", [True, False])
@pytest.mark.parametrize("typed", ["\x7f", "é", "\U0001f600", '"', "float"])
def test_an_event_given_twice_counts_once_however_its_texts_are_written(
    tmp_path: Path, typed: str, escaped: bool, indent: int | None
) -> None:
    twice = [{**OP, "args": {"Input type": [typed, "float"], "Input Dims": [[2, 3], []]}}] * 2
    trace = read_trace(a_file(tmp_path, json.dumps(twice, ensure_ascii=escaped, indent=indent)))
    assert (len(trace), trace.notes) == (1, ("1 event skipped: given twice",))
    assert trace.details == [{"Input type": [typed, "float"], "Input Dims": [[2, 3], []]}]


def test_the_collector_is_left_as_it_was(tmp_path: Path) -> None:
    path = a_file(tmp_path, [OP])
    read_trace(path)
    assert gc.isenabled()
    gc.disable()
    try:
        read_trace(path)
        assert not gc.isenabled()
    finally:
        gc.enable()
    with pytest.raises(UsageError):
        read_trace(tmp_path)
    assert gc.isenabled()


def test_reading_imports_nothing_that_costs_more_than_a_small_trace(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from advisor.profiles.traces.reading import read_trace\n"
        "before = set(sys.modules)\n"
        "read_trace(pathlib.Path(sys.argv[1]))\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    command = [sys.executable, "-c", program, str(a_file(tmp_path, [OP, OP]))]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == ""
