"""What a trial that left no outcome died of."""

import re
import signal
from pathlib import Path

import pytest

from advisor.tuners.supervision.child_start import NO_COMMAND, NOT_ISOLATED
from advisor.tuners.supervision.ended import Ended
from advisor.tuners.supervision.failures import (
    Cause,
    Failure,
    OutOfTime,
    describe,
    describe_ours,
    from_exit,
    is_disruption,
    read_tail,
    stays_failed,
)


def an_end(
    exit_code: int | None = None, number: int | None = None, *, oom_kill: bool = False, limit: int = 0
) -> Ended:
    return Ended(exit_code, number, 0, oom_kill, 300 * 2**20, "exit", False, memory_limit_bytes=limit * 2**20)


@pytest.mark.parametrize(
    ("ended", "started", "failure"),
    [
        (None, True, Failure("killed", "its supervisor was killed from outside")),
        (an_end(0), True, Failure("user_error", "ended without a result, exit status 0")),
        (an_end(NOT_ISOLATED), True, Failure("user_error", "ended without a result, exit status 125")),
        (an_end(NOT_ISOLATED), False, Failure("environment", "the last line")),
        (an_end(NO_COMMAND), False, Failure("environment", "no process could be started: the last line")),
        (
            an_end(1),
            False,
            Failure("internal", "ended before the program began, exit status 1: the last line"),
        ),
        (an_end(number=signal.SIGABRT), False, Failure("crash_signal", "ended by SIGABRT")),
        (an_end(number=signal.SIGTERM), True, Failure("killed", "ended by SIGTERM from outside")),
        (
            an_end(number=signal.SIGKILL),
            True,
            Failure("oom_host", "killed, likely out of memory, peak RSS 300 MiB"),
        ),
        (
            an_end(number=signal.SIGKILL, oom_kill=True, limit=400),
            True,
            Failure("oom_host", "killed by the kernel for lack of memory, peak RSS 300 MiB of 400 MiB"),
        ),
    ],
)
def test_an_end_without_an_outcome_has_a_cause(ended: Ended | None, started: bool, failure: Failure) -> None:
    assert from_exit(ended, "the last line", started=started) == failure


def test_an_end_that_was_asked_for_is_an_interrupt(tmp_path: Path) -> None:
    assert from_exit(an_end(number=15), "", started=True, asked=True) == Failure("killed", "interrupted")


def test_what_we_raise_is_ours_unless_it_is_a_lack_of_something() -> None:
    assert describe_ours(KeyError("x")).cause == "internal"
    assert describe_ours(OSError(28, "No space left on device")).cause == "disk_full"


def test_a_fault_of_the_device_comes_with_the_way_to_find_it_unless_the_device_is_gone() -> None:
    fault = describe(RuntimeError("CUDA error: device-side assert triggered"))
    assert fault.cause == "device_error" and "CUDA_LAUNCH_BLOCKING=1" in fault.message
    told = "CUDA error: x\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1."
    assert describe(RuntimeError(told)).message.count("CUDA_LAUNCH_BLOCKING") == 1
    gone = describe(RuntimeError("CUDA error: no CUDA-capable device is detected"))
    assert gone.cause == "device_error" and "CUDA_LAUNCH_BLOCKING" not in gone.message
    assert is_disruption(gone) and not is_disruption(fault)


def test_a_lack_of_host_memory_names_what_was_used_and_what_is_allowed() -> None:
    failure = describe(MemoryError())
    assert failure.cause == "oom_host"
    used, allowed = map(int, re.findall(r"peak RSS (\d+) MiB of (\d+) MiB", failure.message)[0])
    assert 1 < used < allowed


@pytest.mark.parametrize(
    ("cause", "message", "stays"),
    [
        ("user_error", "ValueError", True),
        ("oom_device", "CUDA out of memory", True),
        ("oom_host", "killed by the kernel for lack of memory, peak RSS 1 MiB", True),
        ("oom_host", "killed, likely out of memory, peak RSS 1 MiB", False),
        ("timeout", "no answer for 300 s in phase compile", True),
        ("timeout", OutOfTime("to compile for more than 90 s").failure.message, False),
        ("killed", "the tuner ended during this trial", False),
        ("device_error", "CUDA error: GPU is lost", False),
        ("environment", "too many open files", False),
        (None, "", False),
    ],
)
def test_what_failed_by_itself_stays_failed(cause: Cause | None, message: str, stays: bool) -> None:
    assert stays_failed(cause, message) is stays


def test_the_last_line_of_a_log_is_the_last_that_says_anything(tmp_path: Path) -> None:
    log = tmp_path / "stderr.log"
    assert read_tail(log) == ""
    log.write_bytes(b"first\n" * 10_000 + b"caf\xe9 closed\n  \n\n")
    assert read_tail(log) == "caf\N{REPLACEMENT CHARACTER} closed"
