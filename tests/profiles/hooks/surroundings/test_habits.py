"""A program that moves, catches SIGTERM or follows the clock is noted with its lines."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.profiles.hooks.surroundings.clock_bound import clock_bound

LOOP = """
import time
from time import monotonic as now
start = time.time()
{line}
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("while time.time() - start < 60: step()", "end"),
        ("while True:\n  if now() > start + 60: break", "end"),
        ("spent = now() - start\nlr = max(0.0, 1 - spent / 60)", "rate"),
        ("for group in groups: group['lr'] = 0.1 * (1 - (time.time() - start) / 60)", "rate"),
        ("self.learning_rate = schedule(time.perf_counter() - start)", "rate"),
        ("import datetime\nwhile datetime.datetime.now() < last: step()", "end"),
    ],
)
def test_what_the_clock_decides_is_found(line: str, found: str) -> None:
    assert [kind for kind, _ in clock_bound(LOOP.format(line=line))] == [found]


@pytest.mark.parametrize(
    "line",
    [
        "print(steps / (time.time() - start))",
        "if now() - start > 10: print(step); start = now()",
        "group['lr'] = 0.1 * step / steps",
        "while step < steps: time.sleep(1)",
        "def lr(:",
    ],
)
def test_speed_that_is_printed_is_no_schedule(line: str) -> None:
    assert clock_bound(LOOP.format(line=line)) == []


def test_a_file_that_imports_no_clock_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ast, "parse", lambda source: pytest.fail("parsed"))
    assert clock_bound("import os, numpy\ntimes = 3  # of some time\nwhile time(1) < 2: pass\n") == []


@pytest.mark.parametrize("line", ["import os, time", "from time import sleep, time", "import a; import time"])
def test_every_way_of_importing_a_clock_is_seen(line: str) -> None:
    assert clock_bound(f"{line}\nwhile time.time() < 9: step()\n") == [("end", 2)]


PROGRAM = """
import os, signal, time
from pathlib import Path
def save(*_): pass
signal.signal(signal.SIGTERM, save)
os.mkdir("runs")
os.chdir("runs")
while time.time() < 0: pass
"""
WATCHED = """
import sys
from advisor.profiles.hooks.surroundings.habits import Habits
habits = Habits()
habits.install()
sys.path.insert(0, {folder!r})
import train
print(*(f"{{each.kind}}:{{each.location.line}}" for each in habits.facts()))
"""


def test_a_program_is_watched_from_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-c", WATCHED.format(folder=str(tmp_path))],
        capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.stdout.split() == ["folder:7", "sigterm:4", "clock_end:8"]
