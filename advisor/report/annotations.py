"""A check as annotations of GitHub Actions: lines that the runner turns into marks on the file.

They are workflow commands (``::error file=train.py,title=...::message``). What a program or a path brings
along is escaped by the rules of the runner, so that it can neither end a command nor begin another one.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from advisor.report.pages.check_page import quantities, told
from advisor.result import wording
from advisor.result.check import CheckData
from advisor.result.wording import shown

TITLE = "advisor check"
MOST = 10  # of one kind, which is what GitHub shows of one step
IN_ACTIONS = "GITHUB_ACTIONS"
WORKSPACE = "GITHUB_WORKSPACE"
MESSAGE_ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
PROPERTY_ESCAPES = MESSAGE_ESCAPES | {":": "%3A", ",": "%2C"}


def annotations(result: CheckData, environment: Mapping[str, str] = os.environ) -> list[str]:
    """One command for each quantity that got worse and for each warning; none where there is nothing to say.

    Args:
        result: What was found.
        environment: Names the folder of the repository, relative to which the host knows the file.
    """
    file = _file(result, environment.get(WORKSPACE))
    said = [*_worse(result), *(("warning", shown(text, 500)) for text in result.warnings)]
    by_kind = [[line for line in said if line[0] == kind][:MOST] for kind in ("error", "warning")]
    return [command(kind, message, file=file) for lines in by_kind for kind, message in lines]


def command(kind: str, message: str, *, file: str | None = None) -> str:
    """One workflow command, escaped.

    Args:
        kind: ``error``, ``warning`` or ``notice``.
        message: What is shown.
        file: The file it belongs to, as the repository names it.
    """
    properties = {"file": file, "title": TITLE} if file else {"title": TITLE}
    told_with = ",".join(f"{name}={_escaped(text, PROPERTY_ESCAPES)}" for name, text in properties.items())
    return f"::{kind} {told_with}::{_escaped(message, MESSAGE_ESCAPES)}"


def _worse(result: CheckData) -> Iterator[tuple[str, str]]:
    limit = wording.percent(result.min_gain)
    for name, each in quantities(result):
        if each.verdict == "regressed":
            ratio = wording.ratio(each.ratio)
            yield "error", f"Regression: {told(name)} is {ratio} what it was; {limit} is let pass."
        elif each.verdict == "within_limit":
            ratio = wording.ratio(each.ratio)
            yield "warning", f"{name}: {ratio} what it was, not shown to exceed the {limit} let pass."


def _file(result: CheckData, workspace: str | None) -> str | None:
    """The target below the repository's folder; ``None`` for modules, launchers and files elsewhere."""
    if not result.target.path or not os.path.isfile(result.target.path):
        return None
    path, top = Path(result.target.path).resolve(), Path(workspace or ".").resolve()
    return path.relative_to(top).as_posix() if path.is_relative_to(top) else None


def _escaped(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in shown(text, 1000))
