"""What is read from broken trace files, and which files are refused."""

import gzip
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trace_files import OP, a_file, record, rows_of

from advisor.base.errors import UsageError
from advisor.profiles.traces import reading, unpacking
from advisor.profiles.traces.reading import read_trace


def refusal(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        read_trace(path)
    assert caught.value.where == str(path) and caught.value.hint
    return str(caught.value)


def two_and(*events: str) -> str:
    """A trace whose first and last event are sound, with others between them as they are."""
    sound = [json.dumps(OP), *events, json.dumps({**OP, "name": "aten::relu", "ts": 90})]
    return '{"traceEvents": [' + ",\n".join(sound) + "]}"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return record(tmp_path_factory.mktemp("recorded") / "trace.json", record_shapes=True)


@pytest.fixture(scope="module")
def small(real: bytes) -> bytes:
    """The same with few events, as Kineto lays it out."""
    head, begin, rest = real.partition(b'"traceEvents": [')
    events, end, tail = rest.rpartition(b"\n  ]")
    kept = b"\n  },".join(events.split(b"\n  },")[:60]) + b"\n  }"
    return head + begin + kept + end + tail


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["empty"]),
        (b" \n\t", ["empty"]),
        (b"hello", ["no JSON", "'hello'"]),
        (b"\x80\x02}q\x00.", ["no JSON"]),
        (b"42", ["no JSON"]),
        (b"{", ["no JSON", "char 1"]),
        (b'{"a": 1', ["no JSON"]),
        (b"[" * 200_000, ["the trace is broken", "at byte 1,"]),
        (b'{"a":' * 200_000, ["no JSON"]),
        (b'{"a": 1}', ["no trace", "no traceEvents"]),
        (b'{"meta": {"traceEvents": [{}]}}', ["no trace", "no traceEvents"]),
        (b'{"traceEvents": 7}', ["no trace", "no list"]),
        (b'{"traceEvents": []}', ["no event of PyTorch"]),
        (b"[]", ["no event of PyTorch"]),
        (b"[1, null, [2]]", ["no event of PyTorch"]),
        (b'{"traceEvents": [{"ph": "X", "name": "fusion.1", "ts": 1, "dur": 2}]}', ["no event of PyTorch"]),
        (
            b'[{"ph": "X", "cat": "cpu_op", "ts": 5, "dur": -1}]',
            ["no event", "1 event skipped: negative time"],
        ),
        (
            b'[{"ph": "X", "cat": "cpu_op", "ts": -5, "dur": 1}]',
            ["no event", "1 event skipped: negative time"],
        ),
        (b'[{"ph": "X", "cat": "cpu_op"}]', ["no event", "1 event skipped: no time"]),
        (gzip.compress(b"", mtime=0), ["empty"]),
        (gzip.compress(b'{"a": 1}', mtime=0), ["no traceEvents"]),
        (gzip.compress(json.dumps([OP]).encode(), mtime=0)[:12], ["empty", "gzip file ends at byte 12"]),
        (b"\x1f\x8bnonsense", ["cannot be read", "gzip file is damaged"]),
    ],
    ids=lambda value: repr(value[:40]) if isinstance(value, bytes) else "",
)
def test_what_is_no_trace_is_refused_with_the_reason(
    tmp_path: Path, content: bytes, words: list[str]
) -> None:
    text = refusal(a_file(tmp_path, content))
    assert all(word in text for word in words), text


def test_what_is_no_file_is_refused_with_the_reason(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "it is a directory" in refusal(tmp_path)
    assert "it is no regular file" in refusal(tmp_path / "pipe")
    assert "No such file" in refusal(tmp_path / "absent.json")
    assert "cannot be read" in refusal(tmp_path / "a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    path = a_file(tmp_path, [OP])
    path.chmod(0)
    assert "Permission denied" in refusal(path)


def test_a_file_beyond_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(10 << 30)
    assert "more than 4 GiB" in refusal(path)


def test_a_gzip_bomb_is_refused_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "MAX_BYTES", 3 << 20)
    event = json.dumps(OP).encode()
    bomb = b'{"traceEvents": [' + b",".join([event] * 40_000) + b"]}"
    assert "more than 0 GiB" in refusal(a_file(tmp_path, gzip.compress(bomb)))


def test_more_events_than_memory_should_hold_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_EVENTS", 99)
    assert "more than 99 events" in refusal(a_file(tmp_path, [OP] * 101))


def test_a_trace_cut_anywhere_is_read_as_far_as_it_goes(tmp_path: Path, small: bytes) -> None:
    ends = list(ends_of_events(small))
    for cut in range(ends[0] + 1, ends[-1], 211):
        trace = read_trace(a_file(tmp_path, small[:cut]))
        whole = sum(end <= cut for end in ends)
        assert len(trace) == whole
        assert len(trace.notes) == 1
        assert trace.notes[0].endswith(f", after {whole} event{'s' * (whole != 1)}")


def ends_of_events(content: bytes) -> Iterator[int]:
    """Where the events with a duration end, by the standard library."""
    text = content.decode("ascii")
    at = text.index('"traceEvents"') + len('"traceEvents": [')
    decoder = json.JSONDecoder()
    while text[at] != "]":
        if text[at] in " \n,":
            at += 1
            continue
        event, at = decoder.raw_decode(text, at)
        if event["ph"] == "X":
            yield at


def test_a_cut_trace_says_where(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": [OP, OP]})
    at = text.index(', {"ph"') + 2
    trace = read_trace(a_file(tmp_path, text[:-20]))
    assert trace.notes == (f"the list of events ends at byte {at}, after 1 event",)


def test_a_cut_gzip_file_is_read_as_far_as_it_goes(tmp_path: Path, real: bytes) -> None:
    whole = read_trace(a_file(tmp_path, real))
    packed = gzip.compress(real)
    trace = read_trace(a_file(tmp_path, packed[: len(packed) * 2 // 3]))
    assert 0 < len(trace) < len(whole)
    assert set(rows_of(trace)) < set(rows_of(whole))
    assert "the gzip file ends at byte" in trace.notes[0] and "the list of events ends" in trace.notes[1]


def test_a_gzip_file_with_a_wrong_checksum_is_refused(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(json.dumps([OP]).encode()))
    packed[-6] ^= 1
    assert "gzip file is damaged before byte" in refusal(a_file(tmp_path, bytes(packed)))


BROKEN = {
    "an unescaped quote": '{"ph": "X", "cat": "cpu_op", "name": "a "b" c", "ts": 1, "dur": 1}',
    "a missing value": '{"ph": "X", "cat": "cpu_op", "name": , "ts": 1, "dur": 1}',
    "a missing bracket": '{"ph": "X", "cat": "cpu_op", "name": "a", "args": {"x": [[1}, "ts": 1, "dur": 1}',
    "deep nesting": '{"ph": "X", "cat": "cpu_op", "ts": 1, "args": ' + "[" * 99_999 + "]" * 99_999 + "}",
    "a number of 9,999 digits": '{"ph": "X", "cat": "cpu_op", "ts": 1, "pid": ' + "9" * 9_999 + "}",
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("block", [64, 1 << 18])
def test_a_broken_event_is_refused_with_its_place(
    tmp_path: Path, broken: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "BLOCK", block)
    text = two_and(broken)
    refused = refusal(a_file(tmp_path, text))
    assert "the trace is broken" in refused
    assert f"at byte {text.index(broken):,}, after 1 event" in refused


def test_an_event_without_end_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_EVENT", 1 << 20)
    text = b'{"traceEvents": [' + json.dumps(OP).encode() + b', {"name": "' + b"a" * (4 << 20) + b'"}]}'
    assert "an event of more than 1 MiB" in refusal(a_file(tmp_path, text))


@pytest.mark.parametrize("name", ["a\x01", "a\nb"])
def test_control_characters_in_a_name_are_read(tmp_path: Path, name: str) -> None:
    text = two_and(json.dumps({**OP, "name": "NAME"}).replace("NAME", name))
    assert name in read_trace(a_file(tmp_path, text)).names


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "nan", "-nan", "inf", "-inf"])
def test_what_is_no_number_is_missing(tmp_path: Path, value: str) -> None:
    event = '{"ph": "X", "cat": "kernel", "name": "k", "ts": 20, "dur": %s, "args": {"stream": 7, "x": %s}}'
    trace = read_trace(a_file(tmp_path, two_and(event % (value, value), event % (1, value))))
    rows = rows_of(trace)
    assert [(row[2], row[1]) for row in rows[1:3]] == [("k", -1.0), ("k", 0.0)]
    assert rows[1][-1] == '{"stream": 7}'
    assert trace.notes == (
        "2 events with nan or inf, taken as missing",
        "1 event without a usable duration, taken as 0 us",
    )


def test_inf_within_text_stays(tmp_path: Path) -> None:
    event = '{"ph": "X", "cat": "cpu_op", "name": "clamp(0, inf)", "ts": 20, "dur": 1, "args": {"x": inf}}'
    assert "clamp(0, inf)" in read_trace(a_file(tmp_path, two_and(event))).names


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    text = two_and('{"ph": "X", "cat": "cpu_op", "name": "a\xe9b", "ts": 20, "dur": 1}')
    trace = read_trace(a_file(tmp_path, text.encode("latin-1")))
    assert "a\ufffdb" in trace.names
    assert trace.notes == ("1 event with text that is not UTF-8, replaced",)


def test_half_a_surrogate_is_replaced(tmp_path: Path) -> None:
    text = two_and('{"ph": "X", "cat": "cpu_op", "name": "a\\ud83d", "ts": 20, "dur": 1}')
    assert "a\ufffd" in read_trace(a_file(tmp_path, text)).names


def test_numbers_beyond_64_bits_do_no_harm(tmp_path: Path) -> None:
    huge = 2**70
    event = {
        **OP,
        "id": huge,
        "pid": huge,
        "args": {"External id": huge, "correlation": -huge, "bytes": huge},
    }
    trace = read_trace(a_file(tmp_path, [OP, event]))
    assert trace.threads[1] == (str(huge), "2")
    assert trace.external.tolist() == [7, 0] and trace.correlation.tolist() == [0, 0]
    assert trace.details[trace.detail[1]] == {"bytes": huge}
    assert trace.notes == ("2 links beyond 64 bits dropped",)


def test_of_equal_keys_the_last_counts(tmp_path: Path) -> None:
    text = '[{"ph": "X", "cat": "cpu_op", "name": "a", "name": "b", "ts": 1, "ts": 2, "dur": 3}]'
    assert rows_of(read_trace(a_file(tmp_path, text)))[0][:3] == (2.0, -3.0, "b")


def test_a_second_list_of_events_is_ignored_and_noted(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": [OP]})[:-1] + ', "traceEvents": [{}]}'
    trace = read_trace(a_file(tmp_path, text))
    assert (len(trace), trace.notes) == (1, ("a second list of events was ignored",))


@pytest.mark.parametrize("rubbish", [b"rubbish", b'{"ph": "X"}, {"ph": "X"}', b"\xff\xff"])
def test_what_follows_the_trace_is_ignored_and_noted(tmp_path: Path, rubbish: bytes) -> None:
    for whole in ({"traceEvents": [OP], "traceName": "x"}, [OP]):
        trace = read_trace(a_file(tmp_path, json.dumps(whole).encode() + rubbish))
        assert (len(trace), trace.notes) == (1, ("what follows the end of the trace was ignored",))


def test_a_head_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    text = '{"deviceProperties": [{"name": "a"b"}], "traceEvents": [' + json.dumps(OP) + "]}"
    assert "the file is no JSON" in refusal(a_file(tmp_path, text))


def test_events_with_ends_of_their_own_are_noted(tmp_path: Path) -> None:
    halves = [{**OP, "ph": "B"}, {**OP, "ph": "E"}]
    trace = read_trace(a_file(tmp_path, [OP, *halves]))
    assert (len(trace), trace.notes) == (1, ("2 half events skipped: B and E instead of X",))


def test_negative_times_and_missing_ones_are_skipped_and_noted(tmp_path: Path) -> None:
    undated = {key: value for key, value in OP.items() if key != "ts"}
    trace = read_trace(a_file(tmp_path, [OP, {**OP, "dur": -1}, {**OP, "ts": -1}, undated]))
    assert len(trace) == 1
    assert trace.notes == (
        "1 event skipped: no time",
        "2 events skipped: negative time",
    )


quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)


@st.composite
def damage(draw: st.DrawFn, size: int) -> list[tuple[int, int, bytes]]:
    """Places, how many bytes are taken out there and what is put in."""
    place = st.integers(0, size)
    put = st.sampled_from(
        (b"", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b"nan", b"\xff", b"\0", b"1e999", b"-")
    )
    cut = st.integers(0, 3) | st.integers(0, size)
    return draw(st.lists(st.tuples(place, cut, put | st.binary(max_size=4)), min_size=1, max_size=5))


@settings(quick, max_examples=100)
@given(data=st.data(), block=st.sampled_from((40, 700, 1 << 18)), packed=st.booleans())
def test_a_damaged_trace_is_read_or_refused_and_nothing_else(
    tmp_path: Path, small: bytes, data: st.DataObject, block: int, packed: bool
) -> None:
    content = gzip.compress(small) if packed else small
    for place, cut, put in data.draw(damage(len(content))):
        content = content[:place] + put + content[place + cut :]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpacking, "BLOCK", block)
        try:
            trace = read_trace(a_file(tmp_path, content))
        except UsageError as error:
            str(error).encode()
            return
    assert len(trace) > 0
    assert all(math.isfinite(row[0]) and row[1] <= 0 for row in rows_of(trace))
    " ".join([*trace.names, *trace.notes, *map(str, trace.threads)]).encode()


@quick
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_read_or_refused_and_nothing_else(tmp_path: Path, content: bytes) -> None:
    for before in (b"", b"[", b'{"traceEvents": ['):
        try:
            read_trace(a_file(tmp_path, before + content))
        except UsageError:
            continue


def test_a_link_to_the_graph_that_is_no_number_is_none(tmp_path: Path) -> None:
    events = [
        {**OP, "ts": at, "args": {"Sequence number": number, "Fwd thread id": thread}}
        for at, (number, thread) in enumerate([("x", None), (7.0, 1), (None, "0"), (2**70, 0)])
    ]
    trace = read_trace(a_file(tmp_path, events))
    assert trace.sequence.tolist() == [-1, 7, -1, -1]
    assert trace.recording.tolist() == [True, False, True, True]
