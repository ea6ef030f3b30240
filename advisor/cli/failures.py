"""How an error is told: message, place, cause, hint, and the exit code of its kind."""

import difflib
import errno
import json
import os
import shlex
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import click

from advisor.base.errors import AdvisorError, EnvironmentProblem, TargetError, UsageError, clean
from advisor.cli.output import RED, paint, tell, write

MAX_LINE = 2000
LIMITS = {
    errno.EMFILE: ("this process may open no more files", "raise the limit of open files: `ulimit -n 4096`"),
    errno.ENFILE: ("this machine opens no more files", "end what holds so many files open"),
    errno.EAGAIN: ("no more processes may be started", "raise the limit of processes: `ulimit -u 4096`"),
    errno.ENOSPC: ("no space left on a disk", "free some space; `--resume` continues the study"),
    errno.EDQUOT: ("the quota of a disk is used up", "free some space; `--resume` continues the study"),
    errno.EROFS: ("a folder cannot be written to", "choose other places: `--storage`, `--out`"),
}
WITH_LOG = (5, 70)  # exit codes whose error names a log


@dataclass
class Face:
    """How the user wants to be spoken to. Known before the options are, so that their errors follow it."""

    json: bool = False
    debug: bool = False
    no_color: bool = False

    @classmethod
    def of(cls, arguments: Sequence[str]) -> "Face":
        """Read from what was typed before any ``--``, and from the environment."""
        typed = list(arguments)
        if "--" in typed:
            typed = typed[: typed.index("--")]
        formats = [after for name, after in pairwise(typed) if name == "--format"]
        formats += [name.partition("=")[2] for name in typed if name.startswith("--format=")]
        wanted = formats or [os.environ.get("ADVISOR_FORMAT", "")]
        return cls(
            json=wanted[-1] == "json",
            debug="--debug" in typed or os.environ.get("ADVISOR_DEBUG", "") not in ("", "0"),
            no_color="--no-color" in typed,
        )


class InternalError(AdvisorError):
    """Something of ours went wrong."""

    code = "internal"
    exit_code = 70


def report_failure(error: AdvisorError, face: Face) -> int:
    """Tell an error on stderr, under ``--format json`` also as the one document on stdout.

    Returns:
        The exit code.
    """
    if error.code == "interrupted":
        error.exit_code = interrupted_code()
    if isinstance(error, TargetError) and error.trace:
        tell(_lines(error.trace))
    if face.debug:
        tell(_lines("".join(traceback.format_exception(error)).rstrip()))
    tell(render(error, face, log=_log(error)))
    if face.json:
        parts = {
            key: _lines(part) if isinstance(part, str) else part for key, part in error.as_json().items()
        }
        with suppress(AdvisorError):  # stdout is broken: the text on stderr has to do
            write(json.dumps({"error": parts}, indent=2) + "\n")
    return error.exit_code


def render(error: AdvisorError, face: Face, log: Path | None = None) -> str:
    """The lines ``error:``, ``-->``, ``cause:``, ``hint:``, ``log:`` as far as there is something to say."""
    lines = [f"{paint('error:', RED, sys.stderr, no_color=face.no_color)} {_lines(error.message)}"]
    parts = (("-->", error.where), ("cause:", error.cause), ("hint:", error.hint), ("log:", log and str(log)))
    lines += [f"  {label} {_lines(part)}" for label, part in parts if part]
    return "\n".join(lines)


def from_click(error: click.ClickException, arguments: Sequence[str], commands: Sequence[str]) -> UsageError:
    """One of click's own errors in our form.

    Args:
        error: What click raised.
        arguments: What the user typed.
        commands: Those that there are.
    """
    if isinstance(error, click.NoSuchOption):
        return UsageError(clean(error.message), hint=_option_hint(error, arguments))
    if isinstance(error, click.NoSuchCommand):
        near = difflib.get_close_matches(error.command_name, commands)
        return UsageError(clean(error.message), hint=_near(near) or "`advisor --help`")
    path = f"advisor {arguments[0]}" if arguments and arguments[0] in commands else "advisor"
    return UsageError(clean(error.format_message()), hint=f"`{path} --help`")


def from_bug(error: Exception) -> AdvisorError:
    """An exception that nobody expected: a limit of this machine that was met, else a fault of ours."""
    if isinstance(error, OSError) and error.errno in LIMITS:
        message, hint = LIMITS[error.errno]
        return EnvironmentProblem(message, cause=clean(str(error)), hint=hint, code="limit")
    internal = InternalError(
        f"advisor failed: {type(error).__name__}",
        cause=clean(str(error)) or None,
        hint="this is a fault of advisor; the log holds what a report of it needs",
    )
    internal.__cause__ = error
    return internal


def interrupted_code() -> int:
    """128 and the signal that ended the run; a closed terminal counts as SIGTERM."""
    from advisor.base.signals import received_signal

    return 128 + (signal.SIGINT if received_signal() in (None, signal.SIGINT) else signal.SIGTERM)


def _option_hint(error: click.NoSuchOption, arguments: Sequence[str]) -> str | None:
    near = _near(error.possibilities)
    before = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    file = next((word for word in before if word.startswith("-") and word.endswith(".py")), None)
    if file is not None:
        return f"write ./{clean(file)}"
    at = next((i for i, word in enumerate(before) if word.split("=")[0] == error.option_name), None)
    target = next((i for i, word in enumerate(before) if word.endswith(".py")), None)
    if at is None or target is None or at < target:
        return near
    moved = shlex.join(["advisor", *before[:at], "--", *before[at:]])
    return f"{near + ' ' if near else ''}arguments of the script go after `--`: `{clean(moved)}`"


def _near(possibilities: Sequence[str] | None) -> str | None:
    return f"did you mean {' or '.join(repr(one) for one in possibilities)}?" if possibilities else None


def _lines(content: str) -> str:
    """Text of several lines without control characters."""
    return "\n".join(clean(line, MAX_LINE) for line in content.split("\n"))


def _log(error: AdvisorError) -> Path | None:
    """A file with the traceback, for kinds of errors whose cause may have to be looked for."""
    if error.exit_code not in WITH_LOG:
        return None
    content = "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace")
    try:
        number, name = tempfile.mkstemp(prefix="advisor-", suffix=".log")
        with open(number, "wb") as stream:
            stream.write(content)
    except OSError:
        return None
    return Path(name)
