"""Time spent in printing, logging and progress bars."""

import builtins
import importlib
import io
import logging
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from advisor.profiles.hooks.patches import Scope
from advisor.profiles.hooks.step.clock import Clock, Step
from advisor.profiles.hooks.surroundings.logs import Logs


class Loop:
    """A clock with its logs; ``step`` ends a step of a program that updates by hand."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.clock = Clock(self.steps.append)
        scope = Scope()
        scope.enter()
        self.logs = Logs(self.clock, scope)
        self.logs.install()

    def step(self) -> None:
        self.clock.backward_done()


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.logs.remove()


class Slow(io.StringIO):
    def write(self, text: str) -> int:
        time.sleep(0.005)
        return super().write(text)


def test_printing_is_a_phase_of_the_step(loop: Loop) -> None:
    loop.step()
    print("loss", 1.5, file=Slow(), end="!")
    loop.step()
    assert loop.steps[1].phases_ns["logging"] >= 15e6 and "logging" not in loop.steps[0].phases_ns
    assert loop.logs.calls == 1 and loop.logs.location is not None
    assert loop.logs.location.file == __file__


def test_what_is_printed_before_the_first_step_is_not_counted(loop: Loop) -> None:
    print("model has 3 parameters", file=Slow())
    loop.step()
    assert (loop.logs.calls, loop.logs.location) == (0, None)


def test_calls_are_told_per_step(loop: Loop) -> None:
    loop.step()
    for _ in range(4):
        print("a", file=io.StringIO())
        print("b", file=io.StringIO())
        loop.step()
    assert loop.logs.calls_per_step == 8 / 5


def test_the_place_with_most_time_is_told(loop: Loop) -> None:
    loop.step()
    for _ in range(5):
        print("short", file=io.StringIO())
    print("long", file=Slow())
    line = sys._getframe().f_lineno - 1
    assert loop.logs.location is not None and loop.logs.location.line == line


def test_output_is_what_it_was(loop: Loop, capsys: pytest.CaptureFixture[str]) -> None:
    class Chatty:
        def __str__(self) -> str:
            print("asked")
            return "answer"

    loop.step()
    print(Chatty(), 1, sep="-", end=".\n")
    print()
    print("to stderr", file=sys.stderr, flush=True)
    with pytest.raises(TypeError, match="sep must be None or a string"):
        print("a", sep=1)  # type: ignore[call-overload]  # the program's own mistake
    assert capsys.readouterr() == ("asked\nanswer-1.\n\n", "to stderr\n")
    assert loop.logs.calls == 4  # the one inside another is part of it
    assert loop.clock.phase is None


def test_log_records_name_the_line_that_logs(loop: Loop) -> None:
    stream = Slow()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(filename)s:%(lineno)d %(message)s"))
    logger = logging.getLogger("a program")
    logger.propagate = False
    logger.addHandler(handler)
    loop.step()
    logger.warning("step %d", 7)
    line = sys._getframe().f_lineno - 1
    logger.debug("not shown")
    assert stream.getvalue() == f"{Path(__file__).name}:{line} step 7\n"
    loop.step()
    assert loop.logs.calls == 1 and loop.steps[1].phases_ns["logging"] >= 5e6
    assert loop.logs.location is not None and loop.logs.location.line == line


def test_other_threads_do_not_count(loop: Loop) -> None:
    loop.step()
    thread = threading.Thread(target=print, args=("from a thread",), kwargs={"file": Slow()})
    thread.start()
    thread.join()
    loop.step()
    assert loop.logs.calls == 0 and "logging" not in loop.steps[1].phases_ns


BARS = """
class tqdm:
    def __init__(self): self.n = 0
    def update(self, n=1):
        self.n += n
        return self.refresh() if self.n % 4 == 0 else None
    def refresh(self): self.display()
    def display(self): print("bar", self.n)
    def set_postfix(self, refresh=True, **values):
        if refresh: self.refresh()
"""
WRITER = """
class SummaryWriter:
    def __init__(self): self.written = []
    def add_scalar(self, tag, value, step=None): self.written.append((tag, value))
    def add_scalars(self, tag, values):
        for name, value in values.items(): self.add_scalar(name, value)
    def close(self): pass
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Progress bars and a writer that the program imports while it is watched."""
    for name, text in (("tqdm.std", BARS), ("tensorboardX.writer", WRITER)):
        path = tmp_path / f"{name.replace('.', '/')}.py"
        path.parent.mkdir()
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    kept = {
        name: module for name, module in sys.modules.items() if name.split(".")[0] in ("tqdm", "tensorboardX")
    }
    for name in kept:
        del sys.modules[name]
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.split(".")[0] in ("tqdm", "tensorboardX")]:
        del sys.modules[name]
    sys.modules.update(kept)


@pytest.mark.usefixtures("packages")
def test_a_progress_bar_counts_when_it_shows_something(capsys: pytest.CaptureFixture[str]) -> None:
    loop = Loop()
    bars = importlib.import_module("tqdm.std").tqdm
    before = {name: vars(bars)[name].__wrapped__ for name in ("update", "refresh", "set_postfix")}
    loop.step()
    bar = bars()
    for _ in range(8):
        bar.update()
        loop.step()
    bar.set_postfix(loss=1)
    loop.logs.remove()
    assert capsys.readouterr().out == "bar 4\nbar 8\nbar 8\n"
    assert loop.logs.calls == 3 and all("logging" in step.phases_ns for step in loop.steps[1:])
    assert {name: vars(bars)[name] for name in before} == before


@pytest.mark.usefixtures("packages")
def test_calls_of_a_writer_are_counted_and_not_timed() -> None:
    loop = Loop()
    writer = importlib.import_module("tensorboardX.writer").SummaryWriter()
    loop.step()
    writer.add_scalar("loss", 1.0)
    writer.add_scalars("all", {"a": 1, "b": 2})
    writer.close()
    loop.step()
    loop.logs.remove()
    assert writer.written == [("loss", 1.0), ("a", 1), ("b", 2)]
    assert loop.logs.calls == 2 and "logging" not in loop.steps[1].phases_ns


@pytest.mark.usefixtures("packages")
def test_what_is_imported_after_removal_is_left_alone() -> None:
    loop = Loop()
    loop.logs.remove()
    bars = importlib.import_module("tqdm.std").tqdm
    assert not hasattr(bars.update, "__wrapped__")


def test_print_is_put_back_and_pickles_as_itself() -> None:
    before = builtins.print, logging.Logger.handle
    loop = Loop()
    during = builtins.print
    assert during is not before[0] and pickle.loads(pickle.dumps(during)) is during
    loop.logs.remove()
    assert (builtins.print, logging.Logger.handle) == before
    during("still works", file=io.StringIO())
    assert loop.logs.calls == 0


def test_a_program_that_replaces_print_keeps_its_own(loop: Loop) -> None:
    ours = builtins.print
    try:
        builtins.print = own = lambda *args, **kwargs: ours(*args, **kwargs)
        loop.logs.remove()
        assert builtins.print is own
    finally:
        builtins.print = loop.logs.patches[0].original


def test_compiled_code_breaks_at_print_as_ever(capsys: pytest.CaptureFixture[str]) -> None:
    from torch._dynamo.utils import counters

    def forward(value: torch.Tensor) -> torch.Tensor:
        doubled = value * 2
        print("half way")
        return doubled + 1

    def reasons() -> list[str]:
        torch._dynamo.reset()
        counters.clear()
        assert torch.compile(forward, backend="eager")(torch.ones(2)).tolist() == [3.0, 3.0]
        return list(counters["graph_break"])

    alone = reasons()  # first: dynamo lists the builtin functions once, as they are when it starts
    loop = Loop()
    try:
        watched = reasons()
    finally:
        loop.logs.remove()
    assert watched == alone
    assert capsys.readouterr().out == "half way\n" * 2
