"""Whether two measurements may be compared: the same machine, the same torch, the same program.

Every reason names both sides in words that need no heading, such as ``NVIDIA A100 and NVIDIA H100``.
"""

import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Any

from advisor.base.errors import UsageError
from advisor.base.redaction import without_secrets
from advisor.base.settings import Settings
from advisor.result.document import Document
from advisor.result.header import Target
from advisor.result.wording import shown

DIGEST = len("sha256:") + 12  # characters of a digest that are shown
MOST = 100  # characters of each side of a reason
SAME_WORK = 0.05  # relative difference of samples per step that ragged batches explain
AS_ASKED = ("--fix", "--device")  # options that change what is measured


def machine_differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """What makes times of two machines incomparable, the version of torch included; empty if they compare.

    Args:
        first: The field ``machine`` of a result.
        second: That of another one.
    """
    one, other = first.get("fingerprint"), second.get("fingerprint")
    if one and one == other:
        return []
    parts = zip(_machine_parts(first), _machine_parts(second), strict=True)
    found = [f"{a} and {b}" for a, b in parts if a != b]
    return found or [f"machine {shown(one, MOST)} and machine {shown(other, MOST)}"]


def target_differences(first: Target, second: Target) -> list[str]:
    """What makes two targets different programs: kind, code, arguments."""
    found = kind_differences(first.kind, second.kind)
    if first.digest and second.digest:
        if first.digest != second.digest:
            found.append(f"{_code(first)} and {_code(second)}")
    elif first.path != second.path:
        found.append(f"{shown(first.path, MOST)} and {shown(second.path, MOST)}")
    return found + _argument_differences(first.args, second.args)


def kind_differences(first: str, second: str) -> list[str]:
    """A script is not timed as a workload is."""
    return [] if first == second else [f"target kind {first} and target kind {second}"]


def refuse(reasons: Sequence[str], *, hint: str | None = None) -> None:
    """Refuse a comparison for all reasons at once.

    Raises:
        UsageError: There is a reason.
    """
    if reasons:
        raise UsageError(f"not comparable: {'; '.join(reasons)}", hint=hint, code="not_comparable")


def other_request(reference: Document, settings: Settings) -> list[str]:
    """What was asked for otherwise when a reference was made, in sentences."""
    request = settings.target
    found = _argument_differences(reference.target.args, request.args)
    if _stem(reference.target.path) != _stem(request.name):
        found.append(f"{shown(reference.target.path, MOST)} and {shown(request.name, MOST)}")
    for option in AS_ASKED:
        then, now = (_given(words, option) for words in (reference.command, settings.command))
        if then != now:
            found.append(f"{_option(option, then)} and {_option(option, now)}")
    return [f"the reference was made with another request, then and now: {each}" for each in found]


def _stem(target: str) -> str:
    """The last name of a file or a module: ``train`` of both ``src/train.py`` and ``src.train``."""
    return PurePath(target).name.removesuffix(".py").rpartition(".")[2]


def _argument_differences(first: Sequence[str], second: Sequence[str]) -> list[str]:
    first, second = without_secrets(first), without_secrets(second)  # a stored one holds none
    return [] if first == second else [f"{_arguments(first)} and {_arguments(second)}"]


def _machine_parts(machine: Mapping[str, Any]) -> list[str]:
    memory = machine.get("memory_bytes")
    return [
        shown(machine.get("cpu_model") or "an unknown processor", MOST),
        f"{shown(machine.get('cpus_allowed', 'unknown'), MOST)} CPUs",
        f"{round(memory / 2**30)} GiB of memory" if isinstance(memory, int | float) else "unknown memory",
        shown(machine.get("platform") or "an unknown system", MOST),
        _gpus(machine.get("gpus")),
        f"torch {shown(machine.get('torch') or 'unknown', MOST)}",
    ]


def _gpus(gpus: Any) -> str:
    """Names of GPUs; in the result of a trace they stand alone."""
    each = gpus if isinstance(gpus, list | tuple) else ()
    names = [gpu.get("name", "unnamed") if isinstance(gpu, dict) else gpu for gpu in each]
    return shown(" + ".join(str(name) for name in names), MOST) or "no GPU"


def _code(target: Target) -> str:
    return f"{shown(target.path, MOST)} ({shown(target.digest[:DIGEST])})"


def _arguments(arguments: Sequence[str]) -> str:
    return f"arguments {shown(shlex.join(arguments), MOST)}" if arguments else "no arguments"


def _given(words: Sequence[str], option: str) -> list[str]:
    """Values of an option in what was typed, in order of the alphabet."""
    own = list(words[: words.index("--")] if "--" in words else words)
    values = [word.partition("=")[2] for word in own if word.startswith(f"{option}=")]
    values += [after for word, after in pairwise(own) if word == option]
    return sorted(values)


def _option(option: str, values: Sequence[str]) -> str:
    return " ".join(f"{option} {shown(value, MOST)}" for value in values) or f"no {option}"
