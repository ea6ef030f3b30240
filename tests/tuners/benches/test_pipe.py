"""A line over the pipes of a child: what comes whole, what says that it is gone, what is left of it."""

import os
import sys
import time
from pathlib import Path

import pytest

from advisor.tuners.benches.engine import BenchLost
from advisor.tuners.benches.pipe import PipeLine
from advisor.tuners.benches.subprocess_engine import SubprocessEngine

ECHO = [sys.executable, "-c", "import sys\nfor line in sys.stdin: print(line.strip() * 3, flush=True)"]
WAIT_S = 60.0


def test_lines_come_one_by_one_and_none_while_there_is_none() -> None:
    line = PipeLine("a", ECHO)
    try:
        assert line.receive(0.0) is None
        line.send("ab")
        line.send("x" * 100_000)
        assert line.receive(WAIT_S) == "ababab"
        assert line.receive(WAIT_S) == "x" * 300_000
        assert line.receive(0.05) is None
    finally:
        line.close()


def test_what_was_sent_before_the_end_is_received_then_the_loss_is_told() -> None:
    line = PipeLine("a", [sys.executable, "-c", "print('last'); raise SystemExit(3)"])
    assert line.receive(WAIT_S) == "last"
    with pytest.raises(BenchLost, match="exit status 3"):
        line.receive(WAIT_S)
    line.close()
    with pytest.raises(BenchLost, match="closed"):
        line.send("anything")


def test_a_command_that_is_not_there_is_a_lost_bench() -> None:
    with pytest.raises(BenchLost, match="no-such-command could not be started"):
        PipeLine("a", ["no-such-command"])


def test_closing_ends_a_grandchild_too(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    code = (
        "import subprocess, sys, pathlib\n"
        "child = subprocess.Popen(['sleep', '100'])\n"
        f"pathlib.Path({str(told)!r}).write_text(str(child.pid)); print('there', flush=True)\n"
        "sys.stdin.read()"
    )
    line = PipeLine("a", [sys.executable, "-c", code])
    assert line.receive(WAIT_S) == "there"
    line.close()
    line.close()
    until = time.monotonic() + WAIT_S
    while _runs(int(told.read_text())):
        assert time.monotonic() < until, "the grandchild is left"
        time.sleep(0.01)


def test_each_process_of_the_engine_runs_on_its_own_cpus() -> None:
    cpu = min(os.sched_getaffinity(0))
    engine = SubprocessEngine([cpu], [[cpu]])
    try:
        here, other = engine.nodes()
        assert here.here and not other.here and other.cpus == 1
        line = engine.open(other, [sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"])
        assert line.receive(WAIT_S) == f"[{cpu}]"
    finally:
        engine.close()


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
