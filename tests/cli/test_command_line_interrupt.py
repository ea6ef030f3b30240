"""Ctrl-C once and twice on a real terminal, and what is said while a program keeps everybody waiting."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from supervised import marked, until

from advisor.stages.device_lock import FOLDER_VARIABLE

ENOUGH_S = 60.0
WAITS = "import time\ntime.sleep(600)\n"
STUBBORN = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{WAITS}"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("ADVISOR_") and "TEST" not in name and name != FOLDER_VARIABLE:
            monkeypatch.delenv(name)
    (tmp_path / "train.py").write_text(WAITS)
    return tmp_path


class Terminal:
    """A command on a terminal of its own, with the keys that are pressed there."""

    def __init__(self, *words: str) -> None:
        self.pid, self.controller = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(sys.executable, [sys.executable, "-m", "advisor", *words])
        self.shown = b""

    def read(self, seconds: float) -> bool:
        """Take what is shown within some seconds; false when the terminal is closed."""
        ready, _, _ = select.select([self.controller], [], [], seconds)
        try:
            part = os.read(self.controller, 65536) if ready else b"-"
        except OSError:
            return False
        self.shown += part if ready else b""
        return bool(part)

    def wait_for(self, text: str) -> None:
        end = time.monotonic() + ENOUGH_S
        while text.encode() not in self.shown:
            assert self.read(1.0) and time.monotonic() < end, self.shown.decode(errors="replace")

    def press_control_c(self) -> None:
        os.write(self.controller, b"\x03")

    def finish(self) -> int:
        """The exit code, when everything has been shown."""
        end = time.monotonic() + ENOUGH_S
        while self.read(1.0):
            assert time.monotonic() < end, "it does not end"
        os.close(self.controller)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.mark.slow
@pytest.mark.parametrize("command", ["tune", pytest.param("profile", marks=pytest.mark.long)])
def test_control_c_ends_the_run_in_order_and_leaves_nothing(
    here: Path, no_process_remains: str, command: str
) -> None:
    terminal = Terminal(command, "train.py", "--budget", "5m")
    terminal.wait_for("Ctrl-C stops")
    terminal.press_control_c()
    assert terminal.finish() == 128 + signal.SIGINT
    shown = terminal.shown.decode()
    assert "train.py, script, " in shown
    assert "interrupted" in shown
    assert "Traceback" not in shown and "Aborted" not in shown
    assert not (here / "advisor-report").exists()


@pytest.mark.slow
def test_a_second_control_c_does_not_wait(here: Path, no_process_remains: str) -> None:
    (here / "train.py").write_text(STUBBORN)
    terminal = Terminal("tune", "train.py", "--budget", "5m")
    terminal.wait_for("Ctrl-C stops")
    terminal.press_control_c()
    terminal.press_control_c()
    assert terminal.finish() == 128 + signal.SIGINT
    assert b"Traceback" not in terminal.shown
    until(lambda: not marked(no_process_remains), 60)


@pytest.mark.slow
def test_a_log_tells_the_stages_and_json_tells_that_it_was_interrupted(
    here: Path, no_process_remains: str
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "advisor", "tune", "train.py", "--budget", "5m", "--format", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None and process.stdout is not None
    lines: list[str] = []
    while not lines or "running it unchanged" not in lines[-1]:
        lines.append(process.stderr.readline())
        assert lines[-1], "it ended"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=ENOUGH_S)
    assert lines[0].startswith("train.py, script, ")
    assert "\r" not in "".join(lines) and "\x1b" not in "".join(lines)
    assert process.returncode == 128 + signal.SIGINT
    error = json.loads(out)["error"]
    assert (error["code"], error["exit_code"]) == ("interrupted", 128 + signal.SIGINT)
    assert err.count("error:") == 1


@pytest.mark.long
@pytest.mark.slow
def test_quiet_leaves_only_the_error(here: Path, no_process_remains: str) -> None:
    (here / "train.py").write_text("raise SystemExit(0)\n")
    done = subprocess.run(
        [sys.executable, "-m", "advisor", "tune", "train.py", "--budget", "1m", "--quiet"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith("error: no training step found")
