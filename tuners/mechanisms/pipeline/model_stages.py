"""Splitting a model into stages that follow one another: each gets one tensor from the one before."""

from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from torch.nn.modules.batchnorm import _BatchNorm

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.pipeline.stage_work import Work, divided
from advisor.tuners.mechanisms.pipeline.traced import Leaf, Traced, Untraceable, traced

NORM = "batch norm normalises each micro-batch by itself, which changes the training"


@dataclass
class _Unit:
    """Calls that stay together, since more than one value passes between them or they share a parameter."""

    entering: Node
    calls: list[Node]


def split(model: nn.Module, count: int) -> list[GraphModule]:
    """The stages in their order, with modules, parameters and names of the model itself.

    A stage begins with a module that is trained, and only where a single value passes: at the blocks of a
    chain or inside a ``Sequential``, never within a residual or between tied weights. The work of the
    stages is as even as it can be.

    Raises:
        Refused: The forward cannot be followed, or is no chain of so many parts.
    """
    if any(isinstance(module, _BatchNorm) for module in model.modules()):
        raise Refused(NORM)
    reasons: list[str] = []
    for leaf in (_is_block(model), _nothing_else):
        try:
            whole = traced(model, leaf)
        except Untraceable as error:
            reasons.append(str(error))
            continue
        units = _units(whole)
        if len(units) >= count:
            return _stages(whole, units, count)
        found = f"{len(units)} parts" if len(units) > 1 else "one part"
        reasons.append(f"its forward is a chain of {found}, too few for {count} stages")
    raise Refused("; ".join(dict.fromkeys(reasons)))


def _is_block(model: nn.Module) -> Leaf:
    """Whether a module stands in a container, next to others or alone: then its inside is not looked at."""
    containers = (nn.Sequential, nn.ModuleList)
    blocks = {
        id(child) for module in model.modules() if isinstance(module, containers)
        for child in module.children() if not isinstance(child, containers)
        and type(child) is not nn.TransformerEncoder
    }  # fmt: skip
    return lambda module: id(module) in blocks


def _nothing_else(module: nn.Module) -> bool:
    return False


def _units(whole: Traced) -> list[_Unit]:
    """Stretches of the graph between places where it may be cut."""
    units = [_Unit(whole.entering, [])]
    last_use = _last_uses(whole)
    alive = {whole.entering} if last_use[whole.entering] >= 0 else set()
    for at, node in enumerate(whole.calls):
        alive = {value for value in alive if last_use[value] >= at}
        if len(alive) == 1 and node.op == "call_module" and _trained(whole, node):
            (passing,) = alive
            if passing is not whole.entering:
                units.append(_Unit(passing, []))
        units[-1].calls.append(node)
        alive.add(node)
    return _joined(whole, units)


def _last_uses(whole: Traced) -> dict[Node, int]:
    """Position of the last call that uses each value; -1 for one that nothing uses."""
    position = {node: at for at, node in enumerate(whole.calls)}
    end = len(position)
    return {
        node: max((position.get(user, end) for user in node.users), default=-1)
        for node in (whole.entering, *position)
    }


def _joined(whole: Traced, units: list[_Unit]) -> list[_Unit]:
    """Units put together where they share a parameter, or where the first has nothing to train."""
    users: dict[int, list[int]] = {}
    for at, unit in enumerate(units):
        for node in unit.calls:
            for parameter in _parameters(whole, node):
                users.setdefault(id(parameter), []).append(at)
    together = {at for uses in users.values() for at in range(min(uses) + 1, max(uses) + 1)}
    if len(units) > 1 and not any(_trained(whole, node) for node in units[0].calls):
        together.add(1)
    joined: list[_Unit] = []
    for at, unit in enumerate(units):
        if at in together:
            joined[-1].calls.extend(unit.calls)
        else:
            joined.append(unit)
    return joined


def _parameters(whole: Traced, node: Node) -> list[nn.Parameter]:
    held = whole.held(node)
    if isinstance(held, nn.Module):
        return list(held.parameters())
    return [held] if isinstance(held, nn.Parameter) else []


def _trained(whole: Traced, node: Node) -> bool:
    return any(parameter.requires_grad for parameter in _parameters(whole, node))


def _stages(whole: Traced, units: list[_Unit], count: int) -> list[GraphModule]:
    work = Work()
    works = [sum(_work(work, whole, node) for node in unit.calls) for unit in units]
    begins = divided(works, count)
    stages = []
    for begin, end in zip(begins, [*begins[1:], len(units)], strict=True):
        calls = [node for unit in units[begin:end] for node in unit.calls]
        leaving = units[end].entering if end < len(units) else whole.leaving
        stages.append(_stage(whole, units[begin].entering, calls, leaving))
    return stages


def _work(work: Work, whole: Traced, node: Node) -> float:
    held = whole.held(node)
    return work.of(held) if isinstance(held, nn.Module) else 0.0


def _stage(whole: Traced, entering: Node, calls: list[Node], leaving: Any) -> GraphModule:
    graph = Graph()
    copies = {entering: graph.placeholder("inputs")}
    held: dict[str, Any] = {}
    for node in calls:
        copies[node] = graph.node_copy(node, copies.__getitem__)
        if node.op in ("call_module", "get_attr"):
            copies[node].target = whole.name(node)
            held[whole.name(node)] = whole.held(node)
    graph.output(map_arg(leaving, copies.__getitem__))
    return GraphModule(held, graph, "Stage")
