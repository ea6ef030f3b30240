"""What a frame computes is told in the words of its source."""

import random
import sys
import threading
import time
from collections import deque
from types import FrameType, SimpleNamespace

import pytest

from advisor.profiles.hooks.running_expression import TEXT, expression, span_of


class Meeting:
    """Notes the expression of its caller whenever it is called, written as text or taken by index."""

    def __init__(self) -> None:
        self.met = ""

    def note(self, *_: object) -> "Meeting":
        caller: FrameType | None = sys._getframe(1)
        while caller is not None and caller.f_code.co_filename != __file__:
            caller = caller.f_back
        assert caller is not None
        span = span_of(caller)
        self.met = expression(span) if span is not None else "nothing"
        return self

    __call__ = __getitem__ = note

    def __format__(self, _: str) -> str:
        return str(self.note_of_caller())

    def note_of_caller(self) -> str:
        span = span_of(sys._getframe(2))
        self.met = expression(span) if span is not None else "nothing"
        return self.met


def test_a_call_is_told_by_its_name() -> None:
    here = SimpleNamespace(inner=Meeting())
    here.inner.note(
        "over",
        "several lines",
    )
    assert here.inner.met == "here.inner.note"
    here.inner.note().note(1)
    assert here.inner.met == ".note"


def test_an_index_is_told_as_it_is_written() -> None:
    rows = Meeting()
    rows[1 + 2]
    assert rows.met == "rows[1 + 2]"


def test_a_lock_that_is_taken_is_told_with_its_statement() -> None:
    lock = threading.Lock()
    begun = threading.Event()

    def waits() -> None:
        begun.set()
        with lock:
            begun.clear()

    with lock:
        thread = threading.Thread(target=waits, daemon=True)
        thread.start()
        assert begun.wait(60)
        met = ""
        until = time.monotonic() + 60
        while met != "with lock" and time.monotonic() < until:
            frame = sys._current_frames().get(thread.ident or 0)
            while frame is not None and frame.f_code is not waits.__code__:
                frame = frame.f_back
            span = span_of(frame) if frame is not None else None
            met = expression(span) if span is not None else ""
            time.sleep(0.001)
    thread.join(60)
    assert met == "with lock"


def test_values_in_a_text_are_told_as_such() -> None:
    value = Meeting()
    assert f"of {value}" and value.met == TEXT


def test_a_frame_below_a_library_is_told_by_what_the_program_calls() -> None:
    meeting = Meeting()
    memory = deque([1, 2, 3])
    random.Random(3).sample([meeting.note() for _ in memory], 1)
    assert meeting.met == "meeting.note"


@pytest.mark.parametrize("span", [("/no/such/file.py", 1, 1, 0, 4), (__file__, 1, 1, 0, 2)])
def test_source_that_is_not_there_says_nothing(span: tuple[str, int, int, int, int]) -> None:
    assert expression(span) == ""
