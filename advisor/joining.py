"""Whether a worker may join a study: what it runs is its own, and must be what the study is about.

Nothing that a database holds is run or opened. The target is a file of this machine, named by the user or
found by its content; every other part of the stored contract is only compared.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.contract import Difference, differences, digests_of_target, table
from advisor.errors import UsageError, clean
from advisor.profiles.machine import read_machine
from advisor.settings import Settings
from advisor.study import contract_of

# What does not depend on the machine; compared before anything runs.
FIXED_PARTS = ("objective", "direction", "files", "args", "fix", "advisor", "strategy", "ranks", "seed")
SHAPES: dict[str, type] = {"files": dict, "args": list, "fix": dict, "ranks": list, "space": list}
MOST_FILES = 500  # of the working directory, that are looked at


def find_target(stored: Mapping[str, Any], folder: Path, study: str) -> str:
    """The one Python file of a folder whose content, with what it imports, is that of the study's target.

    Raises:
        UsageError: None is, or several are.
    """
    wanted = stored.get("files")
    files = sorted(path for path in folder.glob("*.py") if path.is_file())[:MOST_FILES]
    same = [path.name for path in files if isinstance(wanted, dict) and _digests(path) == wanted]
    if len(same) == 1:
        return same[0]
    command = f"`advisor worker TARGET --study {study}`"
    if same:
        raise UsageError(
            f"{', '.join(map(clean, same))} are all the target of study '{study}'",
            hint=f"name one: {command}",
        )
    raise UsageError(
        f"no file here is the target of study '{study}' ({clean(str(stored.get('target', '')), 60)})",
        hint=f"work in a folder with a copy of it, or see what differs: {command}",
    )


def refuse_other_program(study: str, stored: Mapping[str, Any], settings: Settings) -> None:
    """Before anything runs: the same program, arguments and settings as those of the study.

    Raises:
        UsageError: With all differences at once.
    """
    check_shape(study, stored)
    now = contract_of(settings, read_machine(), {})
    _refuse(study, differences(_only(stored, FIXED_PARTS), _only(now, FIXED_PARTS)))


def refuse_other_space(study: str, stored: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """After the baseline: on a machine like that of the study the same was asked for, of a program set alike.

    On another machine it is a space of its own, and belongs to a group of its own.

    Raises:
        UsageError: With all differences at once.
    """
    check_shape(study, stored)
    alike = stored.get("machine_fingerprint") == now["machine_fingerprint"]
    parts = (*FIXED_PARTS, "space", "asked") if alike else FIXED_PARTS
    _refuse(study, differences(_only(stored, parts), _only(now, parts)))


def check_shape(study: str, stored: Mapping[str, Any]) -> None:
    """Refuse a contract that no version of advisor wrote.

    Raises:
        UsageError: Naming the part.
    """
    for part, shape in SHAPES.items():
        content: Any = stored.get(part)
        is_whole = isinstance(content, shape)
        if part == "space" and is_whole:
            is_whole = all(_is_pair(entry) for entry in content)
        if not is_whole:
            raise UsageError(
                f"study '{study}' was not begun by `advisor tune` or `advisor worker`: it has no {part}",
                hint="another `--study NAME`",
            )


def _is_pair(entry: Any) -> bool:
    return isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], list)


def _refuse(study: str, found: list[Difference]) -> None:
    if found:
        count = len(found)
        raise UsageError(
            f"study '{study}' cannot be joined: {count} difference{'s' if count > 1 else ''}\n{table(found)}",
            hint="give the options that the study was begun with, or start another one: `--study NAME`",
            code="study_changed",
        )


def _only(contract: Mapping[str, Any], parts: tuple[str, ...]) -> dict[str, Any]:
    return {part: contract.get(part) for part in parts}


def _digests(path: Path) -> dict[str, str] | None:
    try:
        return digests_of_target(path)
    except OSError:
        return None
