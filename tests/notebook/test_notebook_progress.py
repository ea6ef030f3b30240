"""Progress of a call from Python: one block that is drawn again, at most once a second."""

import io
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from advisor.report import progress
from advisor.report.progress import LiveProgress, NotebookScreen, PlainProgress, TerminalScreen, progress_here


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Drawn:
    """A screen that keeps what was drawn, and when."""

    def __init__(self, clock: Clock) -> None:
        self.frames: list[tuple[float, list[str], str]] = []
        self._clock = clock

    def draw(self, kept: Sequence[str], now: str) -> None:
        self.frames.append((self._clock.now, list(kept), now))


def a_run(live: LiveProgress, clock: Clock) -> None:
    """Ten seconds with something to say every tenth of one."""
    with live:
        live.begin("notebook, objects, 2 CPUs: up to 10 s")
        for tenth in range(100):
            clock.now = tenth / 10
            if tenth == 20:
                live.say("searching")
                live.warn("other processes use this machine")
            if tenth in (30, 60):
                live.trial(tenth // 30, "num_workers=2", "1.31 (1.2 to 1.4)" if tenth == 60 else "", 7.0)
            live.waiting("compile", tenth / 10)


def test_it_is_drawn_at_most_once_a_second_and_at_the_end() -> None:
    clock = Clock()
    screen = Drawn(clock)
    a_run(LiveProgress(screen, clock=clock), clock)
    times = [when for when, _, _ in screen.frames]
    gaps = [later - earlier for earlier, later in pairwise(times[:-1])]
    assert len(times) >= 10 and min(gaps) >= 1.0 - 1e-9
    _, kept, now = screen.frames[-1]
    assert now == "" and kept[1:] == ["searching", "warning: other processes use this machine"]


def test_it_tells_the_trial_the_best_and_what_an_interrupt_keeps() -> None:
    clock = Clock()
    screen = Drawn(clock)
    a_run(LiveProgress(screen, clock=clock), clock)
    told = "\n".join(now for _, _, now in screen.frames)
    assert "trial 2: num_workers=2; best so far 1.31 (1.2 to 1.4); 7 s left" in told
    assert "compiling, " in told and "an interrupt stops and keeps 2 trials" in told


def test_parts_of_a_stage_replace_each_other() -> None:
    clock = Clock()
    screen = Drawn(clock)
    with LiveProgress(screen, clock=clock) as live:
        live.say("confirming amp=bf16")
        for process in range(1, 41):
            clock.now += 10
            live.part(f"process {process}")
    assert screen.frames[-2][1:] == (["confirming amp=bf16"], "process 40")
    assert screen.frames[-1][1:] == (["confirming amp=bf16"], "")


def test_text_of_a_program_controls_no_terminal() -> None:
    clock, stream = Clock(), io.StringIO()
    with LiveProgress(TerminalScreen(stream), clock=clock) as live:
        live.say("\x1b[2Jgone\u202e")
        clock.now = 2.0
        live.trial(1, "\x9b31m" + "x" * 5000, "", 1.0)
    written = stream.getvalue().replace("\r\x1b[2K", "")
    assert "[2Jgone\n" in written and not set(written) & {"\x1b", "\x9b", "\u202e"}


def test_a_terminal_keeps_lines_and_writes_over_the_last_one() -> None:
    clock, stream = Clock(), io.StringIO()
    a_run(LiveProgress(TerminalScreen(stream), clock=clock), clock)
    written = stream.getvalue()
    assert written.count("searching\n") == 1 and written.count("up to 10 s\n") == 1
    assert written.endswith("\r\x1b[2K")


def test_a_terminal_that_is_gone_is_written_to_no_more() -> None:
    stream = io.StringIO()
    screen = TerminalScreen(stream)
    stream.close()
    screen.draw(["a"], "b")
    screen.draw(["a", "c"], "")


def test_a_notebook_has_one_display_that_is_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "IPython.display.publish_display_data", lambda data, **more: sent.append({"data": data, **more})
    )
    screen = NotebookScreen()
    stages = [f"stage {number}" for number in range(20)]
    screen.draw(stages[:1], "now")
    screen.draw(["first", "warning: early", *stages], "later")
    screen.draw(["first", "warning: early", *stages], "later")
    assert [each["update"] for each in sent] == [False, True]
    assert len({each["transient"]["display_id"] for each in sent}) == 1
    text = sent[1]["data"]["text/plain"].splitlines()
    assert text == ["first", "warning: early", *stages[-6:], "later"]


def test_the_place_decides_about_the_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert isinstance(progress_here(), PlainProgress)
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(progress_here(), LiveProgress)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(progress_here(), PlainProgress)
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    assert isinstance(progress_here(), LiveProgress)
    assert isinstance(progress_here(quiet=True), PlainProgress)
