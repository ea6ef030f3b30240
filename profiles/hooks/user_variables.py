"""The variables of the program on the stack, and the lines that add to them."""

import dis
from collections.abc import Iterator
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

from advisor.profiles.facts.observed import Location
from advisor.profiles.hooks.user_lines import LIBRARIES, is_ours, place_of

ADDING = ("append", "extend", "appendleft", "add", "update", "setdefault", "insert")


class Variable(NamedTuple):
    """A variable of the program; ``owner`` is the class whose methods may add to it."""

    name: str
    value: Any
    owner: type
    frame: FrameType

    @property
    def key(self) -> tuple[str, str, str]:
        """What stays the same between two looks: name, file, function."""
        code = self.frame.f_code
        return self.name, code.co_filename, code.co_name


def user_variables(frame: FrameType | None) -> Iterator[Variable]:
    """Each variable of the program that is seen from ``frame`` or from a frame further out.

    An object called ``self`` is given as its attributes: ``self.losses``.
    """
    seen: set[int] = set()
    while frame is not None:
        if not is_ours(frame) and not frame.f_code.co_filename.startswith(LIBRARIES):
            variables = frame.f_locals
            for name, value in list(variables.items()):
                yield from _parts(name, value, frame)
            if frame.f_code.co_flags & CO_OPTIMIZED and isinstance(variables, dict):
                variables.clear()  # a copy that the frame keeps: it would hold everything until it returns
            shared = frame.f_globals
            if id(shared) not in seen and variables is not shared:
                for name, value in list(shared.items()):
                    yield from _parts(name, value, frame)
            seen.add(id(shared))
        frame = frame.f_back


def attributes(value: Any) -> dict[str, Any]:
    """An object's own ones; never by asking it, since lazy proxies answer by importing or raising."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def filled_at(variable: Variable) -> Location:
    """Where the program adds to it: in its frame, a function beside it, or a method of its owner."""
    frame, name = variable.frame, variable.name.rpartition(".")[2]
    spaces = (frame.f_globals, vars(variable.owner))
    functions = [each for space in spaces for each in list(space.values()) if isinstance(each, FunctionType)]
    name = "addHandler" if variable.owner.__module__ == "logging" else name
    codes = [frame.f_code, *(each.__code__ for each in functions)]
    for code in codes:
        if code.co_filename == frame.f_code.co_filename and (line := _adding_line(code, name)):
            return Location(code.co_filename, line, code.co_name)
    return place_of(frame)


def _parts(name: str, value: Any, frame: FrameType) -> Iterator[Variable]:
    if name != "self":
        yield Variable(name, value, type(value), frame)
        return
    for each, part in list(attributes(value).items()):
        yield Variable(f"self.{each}", part, type(value), frame)


def _adding_line(code: CodeType, name: str) -> int | None:
    """The line of ``name += ...``, ``name.append(...)``, ``name = cat([name])``, ``x.addHandler(...)``."""
    line = code.co_firstlineno
    loaded = 0  # the last line that read it
    before: list[dis.Instruction] = []
    for instruction in dis.get_instructions(code):
        # from Python 3.13 on ``starts_line`` is a flag
        line = getattr(instruction, "line_number", instruction.starts_line) or line
        recent = before[-4:]
        is_stored = instruction.argval == name and instruction.opname.startswith("STORE")
        operators = [each.argrepr for each in recent[-2:] if each.opname == "BINARY_OP"]
        if is_stored and (loaded == line or any(operator.endswith("=") for operator in operators)):
            return line
        if instruction.argval == name and instruction.opname.startswith("LOAD"):
            loaded = line
            if name == "addHandler":
                return line
        if instruction.argval in ADDING and any(each.argval == name for each in recent):
            return line
        before.append(instruction)
    return None
