"""Recorded profiles of the planted programs: one file each in ``recorded``, and what the rules say of it.

Floats are stored with six digits; the program, and folders of this machine, by the names in ``FOLDERS``.
"""

import hashlib
import importlib.util
import json
import re
import sysconfig
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from programs import HERE

from advisor.advice.advise import advise
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.profile_json import as_json, from_json
from advisor.rules import RULES
from advisor.stages.diagnosing import result_findings as data

RECORDED = HERE / "recorded"
COMMAND = "make planted-record"
DIGITS = 6
ABSOLUTE = re.compile(r"(?<![\w.>:/-])/[\w.-]+/[^\s'\",;:)]*")  # path


def _libraries() -> str:
    torch = importlib.util.find_spec("torch")
    assert torch is not None and torch.origin is not None
    return str(Path(torch.origin).parents[1])


FOLDERS = {
    "<libraries>": _libraries(),
    "<python>": sysconfig.get_path("stdlib"),
    "<repository>": str(HERE.parents[1]),
    "<temporary>": tempfile.gettempdir(),
}
"""Names of folders, the inner ones first: the virtual environment often lies in the repository.

The file of the program itself is ``<program>``."""


def recording_of(path: Path) -> Path:
    """The file that holds the recorded profile of a program."""
    return RECORDED / f"{path.stem}.json"


def digest_of(path: Path) -> str:
    """Of the program's source."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def recording(path: Path, profile: Profile) -> str:
    """The text of the recording of a program.

    Raises:
        ValueError: It would hold a path of this machine.
    """
    values = _each(_each(as_json(profile), _rounded), partial(_placed, _folders(path)))
    foreign: set[str] = set()
    _each(values, lambda value: foreign.update(ABSOLUTE.findall(value)) if isinstance(value, str) else None)
    if foreign:
        raise ValueError(f"paths of this machine: {', '.join(sorted(foreign))}")
    return json.dumps({"program_sha256": digest_of(path), **values}, separators=(",", ":")) + "\n"


def recorded_profile(path: Path, text: str) -> Profile:
    """The profile that the recording of a program holds.

    Raises:
        ValueError: The program or the form of profiles has changed since.
    """
    values = json.loads(text)
    if values.pop("program_sha256", None) != digest_of(path):
        raise ValueError("the program has changed since it was recorded")
    return from_json(_each(values, partial(_found, _folders(path))))


def said_of(profile: Profile) -> dict[str, Any]:
    """What ``result.json`` of ``advisor profile`` says of it: findings and machine."""
    findings = data.as_data(advise(profile, RULES))
    return {"findings": [each.model_dump() for each in findings], "machine": profile.machine.as_json()}


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """JSON values with every innermost one changed."""
    if isinstance(value, dict):
        return {name: _each(inner, change) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_each(inner, change) for inner in value]
    return change(value)


def _rounded(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _folders(path: Path) -> dict[str, str]:
    return {"<program>": str(path), **FOLDERS}


def _placed(folders: dict[str, str], value: Any) -> Any:
    if isinstance(value, str):
        for name, folder in folders.items():
            value = re.sub(rf"(?<![\w./-]){re.escape(folder)}(?![\w.-])", name, value)
    return value


def _found(folders: dict[str, str], value: Any) -> Any:
    if isinstance(value, str):
        for name, folder in folders.items():
            value = value.replace(name, folder)
    return value
