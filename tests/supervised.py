"""Trials under a supervisor of their own, and what is left of them."""

import dataclasses
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from advisor.tuners.supervision.ended import Ended

SUPERVISE = (sys.executable, "-P", "-m", "advisor.tuners.supervision.supervise")
MARK = "ADVISOR_TEST_MARK"
ENDLESS = "import time\nwhile True: time.sleep(60)"
STUBBORN = (
    f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen('ready', 'w').close()\n{ENDLESS}"
)
ESCAPED = f"""
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('ready', 'w').close()
        while True: signal.pause()
    os._exit(0)
{ENDLESS}
"""


def marked(mark: str) -> list[psutil.Process]:
    """The processes but this one that were started with this mark in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.pid != os.getpid():
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def until(what: Callable[[], bool], limit_s: float = 30.0) -> float:
    """Wait for something to become true; seconds it took."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < limit_s, "waited in vain"
        time.sleep(0.01)
    return time.monotonic() - began


class Supervised:
    """A supervisor as a program, the trial being Python code that runs in ``folder``."""

    def __init__(self, folder: Path, code: str, *options: str, command: list[str] | None = None) -> None:
        self.folder = folder
        status, status_write = os.pipe()
        control_read, self.control = os.pipe()
        self.process = subprocess.Popen(
            [*SUPERVISE, "--parent", str(os.getpid())]
            + ["--stdout", str(folder / "out"), "--stderr", str(folder / "err")]
            + ["--status-fd", str(status_write), "--control-fd", str(control_read), *options, "--"]
            + (command or [sys.executable, "-c", textwrap.dedent(code)]),
            cwd=folder,
            pass_fds=(status_write, control_read),
            start_new_session=True,
        )
        os.close(status_write)
        os.close(control_read)
        self._status = status

    def ready(self) -> None:
        """Wait for the file ``ready``, which the trial writes."""
        until((self.folder / "ready").exists)

    def order(self, text: str) -> None:
        """Write to the supervisor as the tuner does."""
        os.write(self.control, text.encode())

    def end(self, limit_s: float = 30.0) -> Ended:
        """Wait for the end and return what the supervisor reports."""
        self.process.wait(limit_s)
        with open(self._status) as status:
            ended = Ended(**json.loads(status.read()))
        os.close(self.control)
        return ended


def an_end(**fields: object) -> dict[str, object]:
    """The fields of an ``Ended`` that do not depend on the machine."""
    usual = {"exit_code": None, "signal": None, "left": 0, "oom_kill": False, "reason": "exit"}
    return usual | {"stacks": False, "stuck": 0} | fields


def stable(ended: Ended) -> dict[str, object]:
    """The fields of an ``Ended`` that do not depend on the machine."""
    fields = dataclasses.asdict(ended)
    assert fields.pop("memory_limit_bytes") > fields.pop("peak_rss_bytes") > 1_000_000
    return fields
