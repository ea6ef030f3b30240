"""Autograd graphs that outlive their step, and the variable that holds them."""

import dis
import gc
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from inspect import CO_OPTIMIZED
from itertools import islice
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.observed import Location
from advisor.profiles.hooks.tensors import tensor_type
from advisor.profiles.hooks.user_lines import LIBRARIES, is_ours

if TYPE_CHECKING:
    from torch import Tensor

NODES = 200_000  # of one walk
APART = 10  # steps between two looks, at least
DEPTH = 2  # of containers in a variable
INSIDE = 10_000  # elements of one container that are looked at
ADDING = ("append", "extend", "appendleft", "add", "update", "setdefault", "insert")


@dataclass(frozen=True)
class Retained:
    """Growth of the graphs that live tensors hold, in nodes per step, and who holds them."""

    nodes_per_step: float
    name: str | None = None
    location: Location | None = None


_Key = tuple[str, str, str]  # name, file, function


@dataclass
class _Look:
    step: int
    nodes: int
    holders: "dict[_Key, _Holder]" = field(default_factory=dict)


@dataclass(frozen=True)
class _Holder:
    """A variable and the nodes reachable from it."""

    nodes: int
    location: Location


class RetainedGraphs:
    """Compares the graphs alive at two borders of steps: what belongs to the present step is in both.

    All objects known to the garbage collector are looked at, twice (0.1 to 1 s each).
    """

    def __init__(self) -> None:
        self._before: _Look | None = None
        self.found: Retained | None = None

    def look(self, step: int) -> None:
        """At a border, on the thread that trains, after ``step`` steps; the caller's frames are searched."""
        before = self._before
        if before is not None and step - before.step < APART:
            return
        now = _Look(step, count_nodes(_live_tensors()))
        now.holders = dict(_holders(sys._getframe(1)))
        self._before = now
        if before is None or before.nodes >= NODES:
            return
        rate = max(0.0, (now.nodes - before.nodes) / (step - before.step))
        holder = _growing(before.holders, now.holders) if rate else None
        if holder is None:
            self.found = Retained(rate)
        else:
            self.found = Retained(rate, holder[0], now.holders[holder].location)


def count_nodes(tensors: "Iterable[Tensor]") -> int:
    """Distinct autograd nodes reachable from tensors, up to a limit."""
    waiting = [tensor.grad_fn for tensor in tensors]
    met: set[Any] = set()  # holds the nodes: torch makes a new object for one that nobody holds
    while waiting and len(met) < NODES:
        node = waiting.pop()
        if node is None or node in met:
            continue
        met.add(node)
        waiting.extend(following for following, _ in node.next_functions)
    return len(met)


def _live_tensors() -> "list[Tensor]":
    kind = tensor_type()
    found = [thing for thing in gc.get_objects() if issubclass(type(thing), kind)]
    return [tensor for tensor in found if tensor.grad_fn is not None]


def _growing(before: dict[_Key, _Holder], now: dict[_Key, _Holder]) -> _Key | None:
    growth = {name: held.nodes - (before[name].nodes if name in before else 0) for name, held in now.items()}
    name = max(growth, key=lambda each: growth[each], default=None)
    return name if name is not None and growth[name] > 0 else None


def _holders(frame: FrameType | None) -> Iterator[tuple[_Key, _Holder]]:
    """Variables of the program on the stack that hold a graph, directly or inside."""
    seen: set[int] = set()
    while frame is not None:
        if not is_ours(frame) and not frame.f_code.co_filename.startswith(LIBRARIES):
            variables = frame.f_locals
            for name, value in list(variables.items()):
                yield from _held(name, value, frame)
            if frame.f_code.co_flags & CO_OPTIMIZED and isinstance(variables, dict):
                variables.clear()  # a copy that the frame keeps: it would hold everything until it returns
            shared = frame.f_globals
            if id(shared) not in seen and variables is not shared:
                for name, value in list(shared.items()):
                    yield from _held(name, value, frame)
            seen.add(id(shared))
        frame = frame.f_back


def _held(name: str, value: Any, frame: FrameType) -> Iterator[tuple[_Key, _Holder]]:
    parts = [(name, value)]
    if name == "self":
        parts = [(f"self.{each}", part) for each, part in list(_attributes(value).items())]
    for label, part in parts:
        tensors = [each for each in _graph_tensors(part) if each.grad_fn is not None]
        if tensors:
            place = _filled_at(frame, type(value), label.rpartition(".")[2])
            key = (label, frame.f_code.co_filename, frame.f_code.co_name)
            yield key, _Holder(count_nodes(tensors), place)


def _graph_tensors(value: Any, depth: int = DEPTH) -> "list[Tensor]":
    """A tensor, or those inside a container or an object of the program, up to two levels down."""
    kind = type(value)
    if issubclass(kind, tensor_type()):
        return [value]
    if depth == 0 or issubclass(kind, (str, bytes, int, float, type, ModuleType)):
        return []
    inside: Iterable[Any] = _attributes(value).values()
    if issubclass(kind, dict):
        inside = value.values()
    elif issubclass(kind, (list, tuple, set, deque)):
        inside = value
    first = list(islice(inside, INSIDE))
    return [tensor for each in first for tensor in _graph_tensors(each, depth - 1)]


def _attributes(value: Any) -> dict[str, Any]:
    """An object's own ones; never by asking it, since lazy proxies answer by importing or raising."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def _filled_at(frame: FrameType, kind: type, name: str) -> Location:
    """Where the program adds to a variable: in the frame, a function beside it, or a method of ``self``."""
    spaces = (frame.f_globals, vars(kind))
    functions = [each for space in spaces for each in list(space.values()) if isinstance(each, FunctionType)]
    codes = [frame.f_code, *(each.__code__ for each in functions)]
    for code in codes:
        if code.co_filename == frame.f_code.co_filename and (line := _adding_line(code, name)):
            return Location(code.co_filename, line, code.co_name)
    return Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _adding_line(code: CodeType, name: str) -> int | None:
    """The line of a ``name += ...`` or a ``name.append(...)``."""
    line = code.co_firstlineno
    before: list[dis.Instruction] = []
    for instruction in dis.get_instructions(code):
        # from Python 3.13 on ``starts_line`` is a flag
        line = getattr(instruction, "line_number", instruction.starts_line) or line
        recent = before[-4:]
        is_stored = instruction.argval == name and instruction.opname.startswith("STORE")
        operators = [each.argrepr for each in recent[-2:] if each.opname == "BINARY_OP"]
        if is_stored and any(operator.endswith("=") for operator in operators):
            return line
        if instruction.argval in ADDING and any(each.argval == name for each in recent):
            return line
        before.append(instruction)
    return None
