"""What the functions that make items reach by name: globals of their module, and variables around them."""

import ast
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from advisor.profiles.facts.observed import Location
from advisor.profiles.hooks.user_lines import LIBRARIES

MAKING = ("__getitem__", "__getitems__", "__iter__", "__next__", "__call__", "forward")
MOST = 200  # functions


class Reached(NamedTuple):
    """A value under its name, and the function that uses it."""

    name: str
    value: Any
    user: FunctionType

    @property
    def location(self) -> Location:
        """The line that gives it its name, or the function that uses it."""
        file = self.user.__code__.co_filename
        line = _set_at(file, self.name)
        function = "" if line else self.user.__name__
        return Location(file, line or self.user.__code__.co_firstlineno, function)


def reached(things: Iterable[Any]) -> Iterator[Reached]:
    """Values that functions of the program use by name when these objects make an item.

    Functions that they call by name are followed, as are methods of the same class; no code is run.
    """
    pending = deque((each, type(thing)) for thing in things for each in _makers(thing))
    seen: set[CodeType] = set()
    while pending and len(seen) < MOST:
        function, owner = pending.popleft()
        code = function.__code__
        if code in seen or code.co_filename.startswith(LIBRARIES):
            continue
        seen.add(code)
        for name, value in _named(function, owner):
            if isinstance(value, FunctionType):
                pending.append((value, owner))
            else:
                yield Reached(name, value, function)


def names_in(function: Any) -> set[str]:
    """Names of variables and attributes in a function of the program, and in those that it calls by name."""
    names: set[str] = set()
    pending, seen = deque(_makers(function)), set[CodeType]()
    while pending and len(seen) < MOST:
        each = pending.popleft()
        if each.__code__ not in seen:
            seen.add(each.__code__)
            names.update(each.__code__.co_names, each.__code__.co_freevars)
            called = (value for _, value in _named(each, type(function)))
            pending.extend(value for value in called if isinstance(value, FunctionType))
    return names


def _makers(thing: Any) -> Iterator[FunctionType]:
    if isinstance(thing, FunctionType):
        yield thing
        return
    for kind in type(thing).__mro__:
        yield from (each for name in MAKING if isinstance(each := vars(kind).get(name), FunctionType))


def _named(function: FunctionType, owner: type) -> Iterator[tuple[str, Any]]:
    code = function.__code__
    for name in code.co_names:
        if name in function.__globals__:
            yield name, function.__globals__[name]
        method = next((vars(kind)[name] for kind in owner.__mro__ if name in vars(kind)), None)
        if isinstance(method, FunctionType):
            yield name, method
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not set yet
            continue
    for inner in code.co_consts:  # comprehensions and functions inside it
        if isinstance(inner, CodeType):
            yield from (
                (name, function.__globals__[name]) for name in inner.co_names if name in function.__globals__
            )


def _set_at(file: str, name: str) -> int | None:
    try:
        tree = ast.parse(Path(file).read_text())
    except (OSError, ValueError, SyntaxError):
        return None
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(each, ast.Name) and each.id == name for each in targets):
            return getattr(node, "lineno", None)
    return None
