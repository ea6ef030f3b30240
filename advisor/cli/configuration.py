"""Settings that are not typed: ``ADVISOR_*`` variables, ``advisor.toml``, ``[tool.advisor]``.

A variable wins over a file, ``advisor.toml`` over pyproject.toml. Everything wrong is told at once.
"""

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.cli.output import warn
from advisor.cli.problems import Problems
from advisor.cli.values import did_you_mean, switch
from advisor.errors import AdvisorError, EnvironmentProblem, UsageError, clean
from advisor.storage_url import parse_storage

if TYPE_CHECKING:
    from advisor.cli.options import Setting

COMMAND_LINE, DEFAULT = "command line", "default"
PREFIX = "ADVISOR_"
STORAGE = "storage"  # the setting that may hold a password
OWN_FILE, PROJECT_FILE = "advisor.toml", "pyproject.toml"
MAX_FILE_BYTES = 4 * 2**20
NAMES = {bool: "true or false", int: "an integer", float: "a number", str: "a text", list: "a list"}


@dataclass(frozen=True)
class Origin:
    """Where the value of one setting comes from.

    Attributes:
        name: As the command line spells it, without its dashes.
        source: ``command line``, a variable, a file, or ``default``.
        value: As it is written there, less a password; ``None`` at the default and where it cannot be used.
        hidden: Weaker sources that set it too.
    """

    name: str
    source: str
    value: str | None = None
    hidden: tuple[str, ...] = ()


def origins(settings: Mapping[str, "Setting"], typed: Mapping[str, str], problems: Problems) -> list[Origin]:
    """The origin of every setting, in the order of their names.

    Args:
        settings: What may be set, by parameter name.
        typed: What stands on the command line, by parameter name.
        problems: Is told what is wrong.
    """
    read = gather(settings, problems)
    file = ""
    table: dict[str, Any] | None = None
    with suppress(AdvisorError):  # of which `problems` has been told
        file, table, _ = _chosen()
    written = {key.replace("-", "_"): content for key, content in (table or {}).items()}
    found = []
    for name, param in sorted(settings.items()):
        sources = list(_sources(name, typed, file, written))
        label = param.flag.lstrip("-")
        if not sources:
            found.append(Origin(label, DEFAULT))
            continue
        (source, content), *weaker = sources
        value = content if source == COMMAND_LINE else read.get(name)
        if source.startswith(PREFIX):  # where it cannot be read `gather` goes on with what the file says
            value = _tried(content, param)
        if value is not None:
            value = clean(content, 200) if name != STORAGE else _without_password(content, source, problems)
        found.append(Origin(label, source, value, tuple(other for other, _ in weaker)))
    return found


def _without_password(url: str, source: str, problems: Problems) -> str | None:
    """A storage URL for all to see; ``None`` where it cannot be used."""
    with problems.gather(where=source):
        return str(parse_storage(url, from_environment=True))
    return None


def _tried(content: str, param: "Setting") -> Any:
    """What a variable says; ``None`` where it cannot be read."""
    with suppress(AdvisorError):
        return _from_variable(content, param)
    return None


def _sources(
    name: str, typed: Mapping[str, str], file: str, written: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """All that set one setting, the strongest first, each with what is written there."""
    if name in typed:
        yield COMMAND_LINE, typed[name]
    variable = PREFIX + name.upper()
    if os.environ.get(variable) is not None:
        yield variable, os.environ[variable]
    if name in written:
        content = written[name]
        yield file, content if isinstance(content, str) else json.dumps(content, default=str)


def gather(
    settings: Mapping[str, "Setting"], problems: Problems, *, tolerant: bool = False
) -> dict[str, Any]:
    """The values of settings that files and environment give, read.

    Args:
        settings: What may be set, by parameter name.
        problems: Is told what is wrong.
        tolerant: Keys of files that are not among ``settings`` belong to other commands.
    """
    values: dict[str, Any] = {}
    with problems.gather():
        file, table = _read_files()
        values = _from_file(file, table, settings, problems, tolerant=tolerant)
    for name, param in settings.items():
        variable = PREFIX + name.upper()
        if os.environ.get(variable) is not None:
            with problems.gather(prefix=f"{variable}: "):
                values[name] = _from_variable(os.environ[variable], param)
    return values


def _from_variable(content: str, param: "Setting") -> Any:
    read = param.read
    if read is None:
        return switch(content)
    return [read(part) for part in content.split()] if param.repeat else read(content)


def _from_file(
    file: str,
    table: Mapping[str, Any],
    settings: Mapping[str, "Setting"],
    problems: Problems,
    *,
    tolerant: bool,
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, content in table.items():
        name = key.replace("-", "_")
        param = settings.get(name)
        if param is None:
            if not tolerant:
                known = sorted(known.replace("_", "-") for known in settings)
                with problems.gather(where=file):
                    raise UsageError(f"{clean(key, 60)}: unknown key", hint=did_you_mean(key, known))
        elif isinstance(content, dict) and param.read_table is not None:
            values[name] = param.read_table(content, problems, file)
        else:
            with problems.gather(prefix=f"{key}: ", where=file):
                values[name] = _value(content, param)
    return values


def _value(content: Any, param: "Setting") -> Any:
    if param.read is None:
        return _checked(content, (bool,))
    if param.repeat:
        return [param.read(str(_checked(item, (str,)))) for item in _checked(content, (list,))]
    return param.read(str(_checked(content, param.file_types)))


def _checked(content: Any, types: tuple[type, ...]) -> Any:
    """The value when its type fits; a switch is no number."""
    if type(content) in types:
        return content
    names = " or ".join(NAMES[kind] for kind in types)
    shown = json.dumps(content, ensure_ascii=False, default=str)
    raise UsageError(f"expected {names}, got {clean(shown, 60)}")


def _read_files() -> tuple[str, dict[str, Any]]:
    """The name of the file that counts, and its table; warns of what is odd about them.

    Raises:
        UsageError: A file is not TOML.
        EnvironmentProblem: A file cannot be read.
    """
    name, chosen, both = _chosen()
    if both:
        warn(f"{OWN_FILE} wins: [tool.advisor] in {PROJECT_FILE} is not used", hint="remove one of the two")
    if chosen is None:
        return name, {}
    if Path(name).stat().st_mode & stat.S_IWOTH:
        warn(f"others can change {name}", hint=f"`chmod o-w {name}`")
    return name, chosen


def _chosen() -> tuple[str, dict[str, Any] | None, bool]:
    """The name of the file that counts, its table if there is one, and whether the other file has one too."""
    own = _read(Path(OWN_FILE))
    project = (_read(Path(PROJECT_FILE)) or {}).get("tool", {})
    section = project.get("advisor") if isinstance(project, dict) else None
    chosen, name = (own, OWN_FILE) if own is not None else (section, PROJECT_FILE)
    if chosen is not None and not isinstance(chosen, dict):
        raise UsageError("tool.advisor: expected a table", where=name)
    return name, chosen, own is not None and section is not None


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
