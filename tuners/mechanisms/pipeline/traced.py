"""The forward of a model as a graph of calls, as far as torch.fx can follow it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.fx import Graph, Node, Tracer

INSIDE = "model."

Leaf = Callable[[nn.Module], bool]


class Untraceable(Exception):
    """A forward that does more with its input than call functions and modules."""


@dataclass(frozen=True)
class Traced:
    """A forward of one input.

    Attributes:
        graph: Its calls, in their order.
    """

    graph: Graph
    _outside: nn.Module

    @property
    def calls(self) -> list[Node]:
        """All nodes but the input and the output."""
        return [node for node in self.graph.nodes if node.op not in ("placeholder", "output")]

    @property
    def entering(self) -> Node:
        """The input."""
        inputs: Node = self.graph.find_nodes(op="placeholder")[0]
        return inputs

    @property
    def leaving(self) -> Any:
        """What is returned."""
        return next(node for node in self.graph.nodes if node.op == "output").args[0]

    def name(self, node: Node) -> str:
        """Where in the model the module or tensor of a node is found."""
        return f"{node.target}.".removeprefix(INSIDE).removesuffix(".")

    def held(self, node: Node) -> Any:
        """The module or tensor that a node refers to; ``None`` for functions."""
        if node.op not in ("call_module", "get_attr"):
            return None
        thing: Any = self._outside
        for part in str(node.target).split("."):
            thing = getattr(thing, part)
        return thing


def traced(model: nn.Module, leaf: Leaf) -> Traced:
    """Follow the forward of a model with one input; its other arguments have their defaults.

    Args:
        model: In training; what depends on that outside of leaves stays so in the graph.
        leaf: Modules that are one call, whatever they do inside. Those of torch are in any case, but for
            ``Sequential`` and ``TransformerEncoder``.

    Raises:
        Untraceable: It looks at values or shapes.
    """
    outside = _Outside(model)
    try:
        graph = _Following(leaf).trace(outside)
    except Exception as error:  # a stand-in for a tensor may fail anywhere in the user's code
        said = (str(error).splitlines() or [""])[0]
        raise Untraceable(f"the forward of {type(model).__name__} cannot be followed: {said}") from error
    return Traced(graph, outside)


class _Outside(nn.Module):
    """Calls a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Any) -> Any:
        return self.model(inputs)


class _Following(Tracer):
    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        self._leaf = leaf

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return bool(super().is_leaf_module(m, module_qualified_name)) or self._leaf(m)

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        plain = len(args) == 1 and all(value is None or value is False for value in kwargs.values())
        if type(m) is nn.TransformerEncoder and plain:
            return _layer_by_layer(m, args[0])
        return super().call_module(m, forward, args, kwargs)


def _layer_by_layer(encoder: nn.TransformerEncoder, inputs: Any) -> Any:
    """What an encoder computes without masks; its own forward asks for shapes."""
    for layer in encoder.layers:
        inputs = layer(inputs)
    return inputs if encoder.norm is None else encoder.norm(inputs)
