"""What is said during a run, and how often."""

import io
import re
from itertools import pairwise

from rich.console import Console

from advisor.cli.progress import TerminalProgress
from advisor.report.progress import PlainProgress


class Clock:
    """Time that passes only when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_stage_is_told_at_once_and_its_trials_every_thirty_seconds() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = PlainProgress(stream, clock=clock)
    progress.begin("train.py, script: up to 10 min")
    for number in range(1, 14):
        clock.now += 5
        progress.trial(number, "num_workers=2", "1.30x (1.20 to 1.40)", 300.0)
    progress.say("confirming")
    assert stream.getvalue().splitlines() == [
        "train.py, script: up to 10 min",
        "trial 6: num_workers=2; best so far 1.30x (1.20 to 1.40); 5 min left",
        "trial 12: num_workers=2; best so far 1.30x (1.20 to 1.40); 5 min left",
        "confirming",
    ]


def test_a_long_wait_is_told_every_thirty_seconds() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = PlainProgress(stream, clock=clock)
    progress.say("running it unchanged")
    for half_seconds in range(190):
        clock.now = half_seconds / 2
        progress.waiting("compile", clock.now)
    assert stream.getvalue().splitlines() == [
        "running it unchanged",
        "compiling, 30 s so far",
        "compiling, 60 s so far",
        "compiling, 90 s so far",
    ]


def test_slots_that_follow_each_other_are_one_wait() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = PlainProgress(stream, clock=clock)
    progress.say("replaying")
    for half_seconds in range(1, 70):
        clock.now = half_seconds / 2
        progress.waiting("steps", 0.5)
    assert stream.getvalue().splitlines() == ["replaying", "measuring, 30 s so far"]


def test_processes_of_a_confirmation_are_parts_and_no_stages() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = PlainProgress(stream, clock=clock)
    progress.say("confirming amp=bf16")
    for process in range(1, 7):
        progress.part(f"process {process}")
        for _ in range(20):
            clock.now += 0.5
            progress.waiting("steps", 0.5)
    assert stream.getvalue().splitlines() == [
        "confirming amp=bf16", "process 3", "process 6"
    ]  # fmt: skip


def test_a_log_grows_by_stages_and_a_line_every_thirty_seconds_and_is_never_silent_for_longer() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = PlainProgress(stream, clock=clock)
    progress.begin("train.py, script: up to 10 min")
    told, length = [0.0], len(stream.getvalue())
    for half_seconds in range(1, 1201):
        clock.now = half_seconds / 2
        if half_seconds % 14 == 0:
            progress.trial(half_seconds // 14, "num_workers=2", "", 300.0)
        progress.waiting("steps", clock.now % 7)
        if len(stream.getvalue()) > length:
            told.append(clock.now)
            length = len(stream.getvalue())
    gaps = {after - before for before, after in pairwise(told)}
    assert gaps == {30.0}
    assert len(stream.getvalue().splitlines()) == 21


def test_quiet_keeps_only_warnings() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream, quiet=True)
    progress.begin("a")
    progress.say("b")
    progress.part("p")
    progress.trial(1, "c", "", 1.0)
    progress.waiting("d", 100.0)
    progress.warn("contended")
    assert stream.getvalue() == "warning: contended\n"


def test_a_closed_stream_does_not_end_the_run() -> None:
    stream = io.StringIO()
    stream.close()
    progress = PlainProgress(stream)
    progress.say("one")
    progress.say("two")
    assert stream.closed


def test_hostile_text_reaches_neither_terminal_nor_log_as_control_characters() -> None:
    stream = io.StringIO()
    PlainProgress(stream).say("a\x1b[2J\nb\u202e\r[red]")
    assert stream.getvalue() == "a[2J b [red]\n"


def a_terminal(clock: Clock) -> tuple[TerminalProgress, io.StringIO]:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=60, color_system=None, highlight=False)
    return TerminalProgress(console, clock=clock), stream


def seen(stream: io.StringIO) -> str:
    """What was written, without cursor movements."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())


def test_a_terminal_is_redrawn_at_most_four_times_a_second() -> None:
    clock = Clock()
    progress, stream = a_terminal(clock)
    with progress:
        progress.trial(1, "num_workers=2", "1.30x", 60.0)
        for hundredth in range(100):
            clock.now = hundredth / 100
            progress.waiting("measuring", clock.now)
    assert 3 <= seen(stream).count("best so far 1.30x") <= 6


def test_a_terminal_is_never_silent_while_something_is_waited_for() -> None:
    clock = Clock()
    progress, stream = a_terminal(clock)
    gaps = []
    with progress:
        progress.begin("train.py")
        for half_seconds in range(1, 41):
            clock.now = half_seconds / 2
            before = len(stream.getvalue())
            progress.waiting("compiling", clock.now)
            gaps.append(len(stream.getvalue()) - before)
    assert min(gaps) > 0
    assert "compiling, 20 s so far; Ctrl-C stops" in seen(stream)


def test_markup_and_control_characters_in_user_text_are_shown_as_text() -> None:
    clock = Clock()
    progress, stream = a_terminal(clock)
    with progress:
        progress.say("[red]x[/foo] [link=http://x]y[/link]")
        clock.now = 1.0
        progress.trial(1, "\x1b]0;t\x07[bold]z", "", 1.0)
    assert "[red]x[/foo] [link=http://x]y[/link]" in seen(stream)
    assert "]0;t[bold]z" in seen(stream)
    assert "\x07" not in stream.getvalue()


def test_no_thread_draws() -> None:
    import threading

    before = threading.active_count()
    progress, _ = a_terminal(Clock())
    with progress:
        assert threading.active_count() == before
