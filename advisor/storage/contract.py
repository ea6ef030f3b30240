"""What a study is about: compared when it is resumed, so that different things are never mixed.

Budget, number of trials and confidence are no part of it: a study may always be continued longer.
"""

import ast
import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.base.errors import UsageError, clean
from advisor.base.redaction import without_secrets
from advisor.profiles.facts.machine import Machine

Value = int | str

MAX_NAME = 200
MAX_PROJECT_FILES = 1000
NAME_RULE = f"use letters, digits, . _ - (at most {MAX_NAME})"
NOT_RECORDED = "not recorded"
CELL = 60
ENTRIES = {"files": "file", "fix": "fix", "asked": "option"}  # parts that are told entry by entry
BEGUN = "begun"  # the choices that the first part of a study tried; written once they are known
THREADS = "threads"  # fewer of all runs, where the program's own collapsed in the first part of a study
LATER = (BEGUN, THREADS)


@dataclass(frozen=True)
class Difference:
    """One thing that is not what it was: its name, the stored text, the text of now."""

    what: str
    stored: str
    now: str


class StudyChanged(UsageError):
    """A study cannot be resumed; ``differences`` lists everything that changed since."""

    code = "study_changed"

    def __init__(self, study: str, differences: Sequence[Difference]) -> None:
        count = len(differences)
        super().__init__(
            f"study '{clean(study)}' cannot be resumed: {count} thing{'s' if count > 1 else ''} changed\n"
            + table(differences),
            hint="start another one: `--study NAME`",
        )
        self.differences = tuple(differences)


def study_contract(
    *,
    objective: str,
    direction: str,
    space: Mapping[str, Sequence[Value]],
    target: str,
    files: Mapping[str, str],
    machine: Machine,
    advisor_version: str,
    args: Sequence[str] = (),
    fix: Mapping[str, Value] | None = None,
    strategy: str = "single",
    ranks: Sequence[int] = (1,),
    seed: int = 0,
    asked: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Everything that must be the same for trials to be comparable, as JSON values.

    Args:
        objective: What is optimised, such as ``"goodput"``.
        direction: ``"maximize"`` or ``"minimize"``.
        space: Choices per knob, in order, the present setting first.
        target: The program as messages name it.
        files: Digest per project file (see ``digests_of_target``); for live objects any digest.
        machine: Where it is measured.
        advisor_version: Version of this package.
        args: Arguments of the program.
        fix: Knobs that are set for baseline and candidates alike.
        strategy: How processes train together.
        ranks: Numbers of processes.
        seed: Of the sampler and of the program.
        asked: What the user asked for of the space, as text by option. Where it is known, it is what must
            stay the same, with the program's own settings: what else is worth trying follows from times.
    """
    known = {} if asked is None else {"asked": dict(sorted(asked.items()))}
    return {
        "objective": objective,
        "direction": direction,
        "space": [[name, list(choices)] for name, choices in space.items()],
        "target": target,
        "files": dict(sorted(files.items())),
        "args": without_secrets(args),
        "fix": dict(sorted((fix or {}).items())),
        "machine": describe_machine(machine),
        "machine_fingerprint": machine.fingerprint,
        "torch": machine.torch,
        "advisor": advisor_version,
        "strategy": strategy,
        "ranks": list(ranks),
        "seed": seed,
        **known,
    }


def differences(stored: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """Everything in which two contracts differ, in the order of the contract."""
    found: list[Difference] = []
    both_asked = None not in (stored.get("asked"), now.get("asked"))
    for key in dict.fromkeys((*now, *stored)):
        was, present = stored.get(key), now.get(key)
        if was == present or key in LATER or (key == "asked" and not both_asked):
            continue
        if key == "space" and both_asked:
            found += _present_differences(was or [], present or [])
        elif key == "space":
            found += _space_differences(was or [], present or [])
        elif key in ENTRIES:
            found += _entry_differences(ENTRIES[key], was or {}, present or {})
        else:
            found.append(Difference(key.replace("_", " "), _shown(was), _shown(present)))
    explained = any(difference.what in ("machine", "torch") for difference in found)
    return [one for one in found if not (explained and one.what == "machine fingerprint")]


def begun_space(stored: Mapping[str, Any]) -> dict[str, list[Value]] | None:
    """What a stored study tried of each knob; ``None`` where it came to none, or it cannot be read."""
    entries = stored.get(BEGUN)
    if not isinstance(entries, list) or not all(map(_is_choices, entries)):
        return None
    return {name: list(choices) for name, choices in entries}


def _is_choices(entry: Any) -> bool:
    match entry:
        case [str(), [_, *_]]:
            return True
    return False


def refuse_if_changed(study: str, stored: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Let a study be resumed only as it was begun.

    Raises:
        StudyChanged: With all differences at once.
    """
    found = differences(stored, now)
    if found:
        raise StudyChanged(study, found)


def table(found: Sequence[Difference]) -> str:
    """Differences as lines of text under the headings what, stored, now."""
    cells = [("what", "stored", "now")]
    cells += [(clean(d.what, CELL), clean(d.stored, CELL), clean(d.now, CELL)) for d in found]
    widths = [max(len(row[column]) for row in cells) for column in range(2)]
    return "\n".join(f"  {what:{widths[0]}}  {was:{widths[1]}}  {now}".rstrip() for what, was, now in cells)


def digests_of_target(path: Path, root: Path | None = None) -> dict[str, str]:
    """Digest (``sha256:...``) of the target and of every project file it imports, by relative path.

    Imports are read from the source, nothing is run; a file belongs to the project when it lies under
    ``root``. What is imported under a computed name is not seen.

    Args:
        path: The program.
        root: The folder its imports start from; its own folder by default.

    Raises:
        OSError: The target cannot be read.
    """
    start = (root or path.parent).resolve()
    target = path.resolve()
    pending, contents = [target], {target: target.read_bytes()}
    while pending:
        file = pending.pop()
        for imported in _imported_files(file, contents[file], start):
            if imported not in contents and len(contents) < MAX_PROJECT_FILES:
                contents[imported] = imported.read_bytes()
                pending.append(imported)
    return {
        _relative(file, start): f"sha256:{hashlib.sha256(content).hexdigest()}"
        for file, content in sorted(contents.items())
    }


def digest_of_target(path: Path) -> str:
    """One digest (``sha256:...``) over the target and the project files that it imports.

    Raises:
        OSError: The target cannot be read.
    """
    return _digest_of(digests_of_target(path))


def check_study_name(name: str) -> str:
    """Return ``name`` when every database, shell and file system takes it.

    Raises:
        UsageError: It holds anything but letters, digits, ``.``, ``_``, ``-``, or is too long.
    """
    if not re.fullmatch(rf"[A-Za-z0-9._-]{{1,{MAX_NAME}}}", name) or ".." in name or name == ".":
        raise UsageError(f"study name '{clean(name, 60)}': {NAME_RULE}", where="--study")
    return name


def default_study_name(target: str) -> str:
    """The name of a study nobody named: that of its target without folder and ending.

    Args:
        target: A path, ``package.module``, or any text.
    """
    last = target.replace("\\", "/").rstrip("/").rpartition("/")[2].removesuffix(".py")
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-.")
    return re.sub(r"\.{2,}", ".", plain)[:MAX_NAME] or "study"


def no_such_study(name: str, names: Iterable[str]) -> UsageError:
    """The error for a study that is not stored, with the five names nearest to it."""
    near = difflib.get_close_matches(name, sorted(names), n=5, cutoff=0.0)
    listed = f"nearest: {', '.join(near)}; " if near else ""
    return UsageError(f"no study '{clean(name)}'", hint=f"{listed}`advisor studies` lists all")


def _space_differences(stored: Sequence[Any], now: Sequence[Any]) -> list[Difference]:
    was = {str(name): choices for name, choices in stored}
    present = {str(name): choices for name, choices in now}
    found = _entry_differences("knob", was, present)
    if not found and list(was) != list(present):
        found.append(Difference("order of knobs", _shown(list(was)), _shown(list(present))))
    return found


def _present_differences(stored: Sequence[Any], now: Sequence[Any]) -> list[Difference]:
    """Knobs whose present setting, the first of the choices, is another one."""
    was, present = ({str(name): choices[:1] for name, choices in one} for one in (stored, now))
    common = [name for name in present if name in was]
    return _entry_differences("knob", *({name: one[name] for name in common} for one in (was, present)))


def _entry_differences(kind: str, stored: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """Entries that were added, removed or changed."""
    return [
        Difference(
            f"{kind} {name}",
            _shown(stored[name]) if name in stored else "absent",
            _shown(now[name]) if name in now else "absent",
        )
        for name in dict.fromkeys((*now, *stored))
        if stored.get(name) != now.get(name) or (name in stored) != (name in now)
    ]


def _shown(value: Any) -> str:
    if value is None:
        return NOT_RECORDED
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "none"
    text = str(value)
    return text[: len("sha256:") + 12] if text.startswith("sha256:") else text or "none"


def describe_machine(machine: Machine) -> str:
    """A machine in words: processor, platform, CPUs, memory, GPUs."""
    gpus = ", ".join(gpu.name for gpu in machine.gpus) or "no GPU"
    memory = round(machine.memory_bytes / 2**30)
    parts = (machine.cpu_model, machine.platform, f"{machine.cpus_allowed} CPUs", f"{memory} GiB", gpus)
    return ", ".join(part for part in parts if part)


def _digest_of(values: Mapping[str, Any]) -> str:
    """Digest of names and values, in order."""
    text = json.dumps([[name, value] for name, value in values.items()], default=list)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _relative(file: Path, root: Path) -> str:
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name


def _imported_files(file: Path, source: bytes, root: Path) -> Iterator[Path]:
    """Project files that the source of one file imports, packages' ``__init__.py`` included."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files_of(root, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = file.parents[node.level - 1] if 0 < node.level <= len(file.parents) else root
            module = node.module.split(".") if node.module else []
            for alias in node.names:
                yield from _files_of(base, [*module, alias.name], root)


def _files_of(base: Path, names: Sequence[str], root: Path | None = None) -> Iterator[Path]:
    """Files that importing ``names`` under ``base`` executes; the last name may be a mere attribute."""
    here = base
    candidates = [base / "__init__.py"] if root is not None and base != root else []
    for name in names:
        candidates += [here / f"{name}.py", here / name / "__init__.py"]
        here = here / name
    for candidate in candidates:
        inside = candidate.resolve()
        if inside.is_relative_to(root or base) and inside.is_file():
            yield inside
