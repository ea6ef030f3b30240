"""Autograd graphs that outlive their step, and the variable that holds them."""

import gc
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.observed import Location
from advisor.profiles.hooks.tensors import tensor_type
from advisor.profiles.hooks.user_variables import attributes, filled_at, user_variables

if TYPE_CHECKING:
    from torch import Tensor

NODES = 200_000  # of one walk
APART = 10  # steps between two looks, at least
DEPTH = 2  # of containers in a variable
INSIDE = 10_000  # elements of one container that are looked at


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
    for variable in user_variables(frame):
        tensors = [each for each in _graph_tensors(variable.value) if each.grad_fn is not None]
        if tensors:
            yield variable.key, _Holder(count_nodes(tensors), filled_at(variable))


def _graph_tensors(value: Any, depth: int = DEPTH) -> "list[Tensor]":
    """A tensor, or those inside a container or an object of the program, up to two levels down."""
    kind = type(value)
    if issubclass(kind, tensor_type()):
        return [value]
    if depth == 0 or issubclass(kind, (str, bytes, int, float, type, ModuleType)):
        return []
    inside: Iterable[Any] = attributes(value).values()
    if issubclass(kind, dict):
        inside = value.values()
    elif issubclass(kind, (list, tuple, set, deque)):
        inside = value
    first = list(islice(inside, INSIDE))
    return [tensor for each in first for tensor in _graph_tensors(each, depth - 1)]
