"""Every error a user may read, with where it happened, its cause and the next step."""

import re
from collections.abc import Sequence
from typing import Any

MAX_USER_TEXT = 200
NEWLINES = "\r\n\t\u2028\u2029"
RUNNER_COMMAND = re.compile(r"(?<!\S)(?=::\w)|(?<=##)(?=\[)")
BIDIRECTIONAL = frozenset((0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)))


class AdvisorError(Exception):
    """A wrong situation, told as message, place, cause and hint, with the exit code of its kind.

    Args:
        message: One line that says what is wrong with the user's own words in it.
        where: ``file:line``, option, variable or URL without password.
        cause: The lower error in one line, if it says more.
        hint: A command or an edit that can be copied.
        code: The short name of this error in JSON; the class's own by default.
    """

    code = "error"
    exit_code = 70

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        cause: str | None = None,
        hint: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.cause = cause
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        """The four parts in the order in which the command line prints them."""
        lines = [self.message]
        if self.where:
            lines.append(f"  --> {self.where}")
        if self.cause:
            lines.append(f"  cause: {self.cause}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback through advisor: the program's, and the four parts."""
        own = str(getattr(self, "trace", ""))
        return [*([own, ""] if own else []), f"{type(self).__name__}: {self}"]

    def as_json(self) -> dict[str, Any]:
        """The value of ``error`` under ``--format json``."""
        return {
            "code": self.code,
            "message": self.message,
            "where": self.where,
            "cause": self.cause,
            "hint": self.hint,
            "exit_code": self.exit_code,
        }


class UsageError(AdvisorError, ValueError):
    """A command, option, configuration or argument that cannot be meant."""

    code = "usage"
    exit_code = 2


class ArgumentError(AdvisorError, TypeError):
    """A Python call whose arguments are missing or of the wrong kind."""

    code = "usage"
    exit_code = 2


class TargetError(AdvisorError, RuntimeError):
    """The user's own program fails although nothing was changed."""

    code = "target"
    exit_code = 3
    trace = ""  # the user's own traceback, shown as it would be without advisor


class NoValidTrial(AdvisorError, RuntimeError):
    """Nothing that was measured can be used."""

    code = "no_valid_trial"
    exit_code = 4

    @classmethod
    def of_causes(
        cls, causes: Sequence[str], study: str, *, where: str | None = None, own_loss_ends: bool = False
    ) -> "NoValidTrial":
        """All trials of a study failed.

        Args:
            causes: That of each trial.
            study: Its name.
            where: The folder of their logs.
            own_loss_ends: A loss of the unchanged program is NaN or infinite as well.
        """
        hint = f"`advisor report {study}` lists them with their logs"
        if own_loss_ends and "non_finite" in causes:
            hint = "the unchanged program's loss becomes NaN or infinite too: mend that first; " + hint
        return cls(
            f"all {len(causes)} trials failed: {', '.join(sorted(set(causes)))}", where=where, hint=hint
        )


class EnvironmentProblem(AdvisorError, RuntimeError):
    """Storage or machine do not allow it."""

    code = "environment"
    exit_code = 5


class SituationError(AdvisorError, RuntimeError):
    """A Python call made at the wrong moment or place."""

    code = "usage"
    exit_code = 2


def clean(text: str, limit: int = MAX_USER_TEXT) -> str:
    """User text made safe for a message: no control or bidirectional characters, cut at ``limit``.

    Newlines become spaces, lone surrogates are shown as ``\\xff`` escapes; what a runner of pipelines would
    take for a command (``::error``, ``##[error]``) gets a backslash.
    """
    kept = text if text.isprintable() else _printable(text)
    if "::" in kept or "##[" in kept:
        kept = RUNNER_COMMAND.sub(r"\\", kept)
    return kept if len(kept) <= limit else kept[: limit - 3] + "..."


def _printable(text: str) -> str:
    shown = text.encode("utf-8", "surrogateescape" if _has_byte_surrogates(text) else "backslashreplace")
    readable = shown.decode("utf-8", "backslashreplace")
    return "".join(" " if c in NEWLINES else c for c in readable if c in NEWLINES or not _is_control(c))


def _has_byte_surrogates(text: str) -> bool:
    surrogates = [ord(c) for c in text if 0xD800 <= ord(c) <= 0xDFFF]
    return bool(surrogates) and all(0xDC80 <= c <= 0xDCFF for c in surrogates)


def _is_control(character: str) -> bool:
    code = ord(character)
    return code < 0x20 or 0x7F <= code < 0xA0 or code in BIDIRECTIONAL
