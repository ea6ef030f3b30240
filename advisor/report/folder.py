"""The folder of a report: one that holds nothing else, so that nothing of the user's is replaced."""

import json
import os
from pathlib import Path

from advisor.base.errors import EnvironmentProblem, UsageError, clean

ELSEWHERE = "choose another place: `--out DIR`"
FILES = ("report.html", "result.json", "report.md", "changes.patch")


def check_folder(folder: Path) -> None:
    """Make sure that a report may be written to ``folder``; writes nothing.

    Raises:
        UsageError: It is a file, or holds something that is not an earlier report.
        EnvironmentProblem: Its parent does not exist, or it cannot be written to.
    """
    name = clean(str(folder))
    try:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{name} is a file; --out is a directory", where="--out")
        if not folder.exists():
            _check_parent(folder)
            return
        entries = {entry.name for entry in folder.iterdir()}
    except OSError as error:
        raise EnvironmentProblem(f"cannot write to {name}", where="--out", cause=reason(error)) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise EnvironmentProblem(f"cannot write to {name}", where="--out", hint=ELSEWHERE)
    if any(not _is_temporary(entry) for entry in entries) and not _has_ours(folder):
        raise UsageError(
            f"{name} exists and was not made by advisor", where="--out", hint="choose another --out"
        )


def _check_parent(folder: Path) -> None:
    parent = folder.parent
    if not parent.is_dir():
        raise EnvironmentProblem(f"no such directory: {clean(str(parent))}", where="--out")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise EnvironmentProblem(f"cannot write to {clean(str(parent))}", where="--out", hint=ELSEWHERE)


def _is_temporary(name: str) -> bool:
    """A file that ``write_atomically`` left when it was killed."""
    return name.endswith(".tmp") and any(name.startswith(f".{file}.") for file in FILES)


def _has_ours(folder: Path) -> bool:
    """Whether a report or a check was written here before."""
    return any(_is_ours(folder / name) for name in ("result.json", "check.json"))


def _is_ours(file: Path) -> bool:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(data, dict) and "schema_version" in data and "advisor_version" in data


def reason(error: OSError) -> str:
    """What the system says, for a cause."""
    return (error.strerror or type(error).__name__).lower()
