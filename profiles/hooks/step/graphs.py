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
AT_ONCE = (
    50  # steps after which one look tells of a variable that holds as many tensors; chosen, not measured
)
OUTLIVED = (
    0.5  # of the nodes made before the first look, that must be there at the second; chosen, not measured
)
CLOSE = 0.02  # of the steps, by which their number may differ: it is kept before or after the border


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
    mark: int = 0  # nodes made later have higher numbers; torch counts them in each thread
    made: int = 0  # of its nodes, those up to the mark: not the leaves that weights have


@dataclass(frozen=True)
class _Holder:
    """A variable and the nodes reachable from it."""

    nodes: int
    location: Location
    tensors: int = 0
    replaced: bool = False  # it holds nothing of what it held at the look before


class RetainedGraphs:
    """Compares the graphs alive at two borders of steps: what belongs to the present step is in both.

    Graphs of single steps differ in size, as those of adaptive solvers or of sentences do: growth counts only
    where a graph of the first look is part of one of the second.

    A program may end before the second: then a variable is told that holds as many tensors as it made steps.

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
        mark = 0 if before is None else before.mark
        nodes = reachable(_live_tensors())
        holders, latest = dict(_holders(sys._getframe(1), mark)), _made_so_far()
        now = _Look(step, len(nodes), holders, latest, _up_to(latest, nodes))
        if before is None:
            self._before, self.found = now, _kept_in_each(now) or self.found
            return
        self._before = None
        if before.nodes >= NODES:
            return
        rate = 0.0
        if _up_to(mark, nodes) >= OUTLIVED * before.made:
            larger = (
                held.nodes - _nodes(before, name) for name, held in now.holders.items() if held.replaced
            )
            grown = now.nodes - before.nodes - sum(max(0, each) for each in larger)
            rate = max(0.0, grown / (step - before.step))
        holder = _growing(before, now) if rate else None
        if holder is None:
            self.found = Retained(rate)
        else:
            self.found = Retained(rate, holder[0], now.holders[holder].location)


def count_nodes(tensors: "Iterable[Tensor]") -> int:
    """Distinct autograd nodes reachable from tensors, up to a limit."""
    return len(reachable(tensors))


def reachable(tensors: "Iterable[Tensor]") -> set[Any]:
    """The autograd nodes reachable from tensors, up to a limit."""
    waiting = [tensor.grad_fn for tensor in tensors]
    met: set[Any] = set()  # holds the nodes: torch makes a new object for one that nobody holds
    while waiting and len(met) < NODES:
        node = waiting.pop()
        if node is None or node in met:
            continue
        met.add(node)
        waiting.extend(following for following, _ in node.next_functions)
    return met


def _live_tensors() -> "list[Tensor]":
    kind = tensor_type()
    found = [thing for thing in gc.get_objects() if issubclass(type(thing), kind)]
    return [tensor for tensor in found if tensor.grad_fn is not None]


def _kept_in_each(look: _Look) -> Retained | None:
    """What one look tells: a variable that holds one tensor with a graph, or a few, of each step so far."""
    if look.step < AT_ONCE:
        return None
    for (name, _, _), held in look.holders.items():
        times = round(held.tensors / look.step)
        if times and abs(held.tensors - times * look.step) <= max(2.0, CLOSE * look.step):
            return Retained(held.nodes / look.step, name, held.location)
    return None


def _growing(before: _Look, now: _Look) -> _Key | None:
    growth = {
        name: held.nodes - _nodes(before, name) for name, held in now.holders.items() if not held.replaced
    }
    name = max(growth, key=lambda each: growth[each], default=None)
    return name if name is not None and growth[name] > 0 else None


def _nodes(look: _Look, name: _Key) -> int:
    return look.holders[name].nodes if name in look.holders else 0


def _holders(frame: FrameType | None, mark: int) -> Iterator[tuple[_Key, _Holder]]:
    """Variables of the program on the stack that hold a graph, directly or inside."""
    for variable in user_variables(frame):
        tensors = [each for each in _graph_tensors(variable.value) if each.grad_fn is not None]
        if tensors:
            nodes = reachable(tensors)
            replaced = mark > 0 and all(number(node) > mark for node in nodes)
            yield variable.key, _Holder(len(nodes), filled_at(variable), len(tensors), replaced)


def number(node: Any) -> int:
    """The number of an autograd node, by the order in which they were made; weights have the highest."""
    found: int = node._sequence_nr()
    return found


def _up_to(mark: int, nodes: Iterable[Any]) -> int:
    return sum(number(node) <= mark for node in nodes)


def _made_so_far() -> int:
    from torch._C import _autograd

    found: int = _autograd._get_sequence_nr()  # of the next one
    return found - 1


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
