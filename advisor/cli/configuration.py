"""``advisor.toml`` and ``[tool.advisor]``: read, checked, and handed to click as its ``default_map``."""

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.base.errors import EnvironmentProblem, UsageError, clean
from advisor.cli.problems import Problems
from advisor.cli.values import did_you_mean

OWN_FILE, PROJECT_FILE = "advisor.toml", "pyproject.toml"
MAX_FILE_BYTES = 4 * 2**20
NAMES = {bool: "true or false", int: "an integer", float: "a number", str: "a text", list: "a list"}


@dataclass(frozen=True)
class Form:
    """What a setting may be in a file.

    Attributes:
        types: The types of TOML that it takes.
        entry: How an entry of a table is written on the command line; without it the setting is no table.
    """

    types: tuple[type, ...] = (str,)
    entry: Callable[[str, Any], str] | None = None


@dataclass(frozen=True)
class SettingsFile:
    """The file that counts.

    Attributes:
        name: Of the file; "" where there is none.
        written: By parameter name, what would stand on the command line: texts, or the state of a switch.
        warnings: What is odd about the files, each with what to do.
    """

    name: str = ""
    written: dict[str, list[str] | bool] = field(default_factory=dict)
    warnings: tuple[tuple[str, str], ...] = ()


def read_settings(forms: Mapping[str, Form], problems: Problems, *, tolerant: bool) -> SettingsFile:
    """The settings of the file that counts.

    Args:
        forms: What may be set, by parameter name.
        problems: Is told what is wrong.
        tolerant: Keys that are not among ``forms`` belong to other commands.
    """
    name, table, warnings = "", dict[str, Any](), list[tuple[str, str]]()
    with problems.gather():
        name, table, warnings = _chosen()
    written: dict[str, list[str] | bool] = {}
    for key, content in table.items():
        form = forms.get(key.replace("-", "_"))
        if form is not None:
            with problems.gather(f"{key}: ", where=name):
                written[key.replace("-", "_")] = _written(key, content, form, problems, name)
        elif not tolerant:
            known = sorted(known.replace("_", "-") for known in forms)
            with problems.gather(where=name):
                raise UsageError(f"{clean(key, 60)}: unknown key", hint=did_you_mean(key, known))
    return SettingsFile(name, written, tuple(warnings))


def _written(key: str, content: Any, form: Form, problems: Problems, file: str) -> list[str] | bool:
    if isinstance(content, dict) and form.entry is not None:
        texts = []
        for name, value in content.items():
            with problems.gather(f"{key}.{clean(name, 60)}: ", where=file):
                texts.append(form.entry(name, value))
        return texts
    _require(content, form.types)
    if isinstance(content, list):
        return [str(_require(item, (str,))) for item in content]
    return content if isinstance(content, bool) else [str(content)]


def _require(content: Any, types: tuple[type, ...]) -> Any:
    """The value when its type fits; a switch is no number."""
    if type(content) in types:
        return content
    names = " or ".join(NAMES[kind] for kind in types)
    shown = json.dumps(content, ensure_ascii=False, default=str)
    raise UsageError(f"expected {names}, got {clean(shown, 60)}")


def _chosen() -> tuple[str, dict[str, Any], list[tuple[str, str]]]:
    """The name of the file that counts, its table, and warnings.

    Raises:
        UsageError: A file is not TOML.
        EnvironmentProblem: A file cannot be read.
    """
    own = _read(Path(OWN_FILE))
    project = (_read(Path(PROJECT_FILE)) or {}).get("tool", {})
    section = project.get("advisor") if isinstance(project, dict) else None
    table, name = (own, OWN_FILE) if own is not None else (section, PROJECT_FILE)
    if table is None:
        return "", {}, []
    if not isinstance(table, dict):
        raise UsageError("tool.advisor: expected a table", where=name)
    warnings = []
    if own is not None and section is not None:
        warnings.append(
            (f"{OWN_FILE} wins: [tool.advisor] in {PROJECT_FILE} is not used", "remove one of the two")
        )
    if Path(name).stat().st_mode & stat.S_IWOTH:
        warnings.append((f"others can change {name}", f"`chmod o-w {name}`"))
    return name, table, warnings


def _read(path: Path) -> dict[str, Any] | None:
    """The contents of a file; ``None`` when there is none."""
    content = _content(path)
    if content is None:
        return None
    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is not UTF-8 (byte 0x{content[error.start]:02x} at {error.start})",
            hint="save it as UTF-8",
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise _broken(path, str(error)) from None
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply") from None


def _content(path: Path) -> bytes | None:
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a directory, not a file")
        if not path.is_file():
            return None
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(f"{path} has more than 4 MiB")
        return path.read_bytes()
    except OSError as error:
        reason = clean(os.strerror(error.errno or 0)).lower()
        raise EnvironmentProblem(f"cannot read {path}: {reason}") from None


def _broken(path: Path, told: str) -> UsageError:
    """The parser's message with the place in front, as editors take it."""
    found = re.fullmatch(
        r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|.*)\)", told, re.DOTALL
    )
    if found is None:
        return UsageError(f"{path}: {clean(told)}")
    what = found["what"][:1].lower() + found["what"][1:]
    place = f"{path}:{found['line']}:{found['column']}" if found["line"] else f"{path}, at its end"
    return UsageError(f"{place}: {clean(what)}")
