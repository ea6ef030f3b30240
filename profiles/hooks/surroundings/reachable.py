"""Which names a function uses, and the user's own functions that it calls by name: read, not run."""

import sysconfig
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

MOST = 100  # functions looked at, of one program
NOT_THEIRS = ("site-packages", "dist-packages", sysconfig.get_path("stdlib"))


def names_below(function: Any) -> set[str]:
    """Names of all that a function and the user's functions below it call or read.

    A method is looked at where its class is named beside it; what is called through a value is not found.
    """
    found: set[str] = set()
    seen: set[FunctionType] = set()
    waiting = [function]
    while waiting and len(seen) < MOST:
        plain = _plain(waiting.pop())
        if plain is None or plain in seen or any(part in plain.__code__.co_filename for part in NOT_THEIRS):
            continue
        seen.add(plain)
        names = set(_names(plain.__code__))
        found |= names
        for name in names:
            waiting.extend(_called(plain.__globals__.get(name), names))
    return found


def _plain(function: Any) -> FunctionType | None:
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    function = getattr(function, "__func__", function)
    return function if isinstance(function, FunctionType) else None


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _called(value: Any, names: set[str]) -> list[Any]:
    """What of a global value may be called by a function that uses these names."""
    if isinstance(value, type):
        return [member for name, member in vars(value).items() if name == "__init__" or name in names]
    if isinstance(value, ModuleType):
        return [member for name, member in vars(value).items() if name in names]
    return [value]
