"""Linear layers between which only element-by-element functions stand, found in a model's forward."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.fx import Node

from advisor.tuners.mechanisms.pipeline.traced import Traced, Untraceable, traced

ELEMENTWISE = (
    nn.CELU, nn.Dropout, nn.ELU, nn.GELU, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.Identity,
    nn.LeakyReLU, nn.Mish, nn.ReLU, nn.ReLU6, nn.SELU, nn.SiLU, nn.Sigmoid, nn.Softplus, nn.Softsign, nn.Tanh,
)  # fmt: skip
FUNCTIONS = {
    "abs", "add", "celu", "div", "dropout", "elu", "exp", "gelu", "hardsigmoid", "hardswish", "hardtanh",
    "leaky_relu", "mish", "mul", "neg", "pow", "relu", "relu6", "selu", "sigmoid", "silu", "softplus",
    "softsign", "sqrt", "square", "sub", "tanh", "true_divide", "truediv",
}  # fmt: skip
TRANSFORMER_LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)


@dataclass(frozen=True)
class LinearGroup:
    """Layers whose output is divided by columns, and the one layer that takes the parts and sums them up.

    Attributes:
        columns: Names of the first layers below the model.
        rows: Name of the last one.
        between: Names of modules between them.
    """

    columns: tuple[str, ...]
    rows: str
    between: tuple[str, ...] = ()

    def below(self, prefix: str) -> "LinearGroup":
        """The same where the model is a part of another one."""
        return LinearGroup(
            tuple(joined(prefix, name) for name in self.columns),
            joined(prefix, self.rows),
            tuple(joined(prefix, name) for name in self.between),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Of all its layers."""
        return (*self.columns, self.rows)


def joined(prefix: str, name: str) -> str:
    """The name of a part of a part."""
    return f"{prefix}.{name}" if prefix and name else prefix or name


def linear_groups(model: nn.Module) -> list[LinearGroup]:
    """Those of a whole model, in the order of its modules; each layer is in one at most.

    Where the forward of the model cannot be followed, those of its children are, down to the last.
    """
    groups: list[LinearGroup] = []
    taken: set[str] = set()
    for group in [*_of_transformer_layers(model), *_followed(model, "")]:
        if taken.isdisjoint(group.names):
            taken.update(group.names)
            groups.append(group)
    return groups


def _of_transformer_layers(model: nn.Module) -> Iterable[LinearGroup]:
    """The feed-forward parts of torch's own layers, which are never looked into."""
    for name, layer in model.named_modules():
        if type(layer) not in TRANSFORMER_LAYERS:
            continue
        activation: Any = layer.activation
        if type(activation) in ELEMENTWISE or getattr(activation, "__name__", "") in FUNCTIONS:
            between = ("activation", "dropout") if isinstance(activation, nn.Module) else ("dropout",)
            yield LinearGroup(("linear1",), "linear2", between).below(name)


def _followed(module: nn.Module, prefix: str) -> Iterable[LinearGroup]:
    """Groups in a module's forward, and in what is called there but not followed itself."""
    if next(module.children(), None) is None:
        return
    try:
        graph = traced(module, lambda _: False)
    except Untraceable:
        yield from _in_children(module, prefix)
        return
    for node in graph.calls:
        held = graph.held(node)
        if isinstance(held, nn.Module):
            yield from _in_children(held, joined(prefix, graph.name(node)))
        group = _ending_at(graph, node)
        if group is not None:
            yield group.below(prefix)


def _in_children(module: nn.Module, prefix: str) -> Iterable[LinearGroup]:
    for name, child in module.named_children():
        yield from _followed(child, joined(prefix, name))


def _ending_at(graph: Traced, last: Node) -> LinearGroup | None:
    """The layers that feed a linear layer through element-by-element functions and nothing else uses."""
    if not _is_linear(graph, last):
        return None
    firsts: list[Node] = []
    between: list[Node] = []
    waiting = list(last.all_input_nodes)
    while waiting:
        node = waiting.pop()
        if node in firsts or node in between:
            continue
        if _is_linear(graph, node):
            firsts.append(node)
        elif _is_elementwise(graph, node):
            between.append(node)
            waiting.extend(node.all_input_nodes)
        else:
            return None
    inside = {last, *between}
    if not firsts or any(user not in inside for node in (*firsts, *between) for user in node.users):
        return None
    if any(graph.held(node).out_features != graph.held(last).in_features for node in firsts):
        return None
    modules = tuple(graph.name(node) for node in between if node.op == "call_module")
    return LinearGroup(tuple(graph.name(node) for node in firsts), graph.name(last), modules)


def _is_linear(graph: Traced, node: Node) -> bool:
    """A plain layer with one input, called once."""
    held = graph.held(node)
    if type(held) is not nn.Linear or len(node.args) != 1 or node.kwargs:
        return False
    own = {id(parameter) for parameter in held.parameters()}
    uses = 0
    for other in graph.calls:
        thing = graph.held(other)
        if thing is held:
            uses += 1
        elif isinstance(thing, nn.Parameter) and id(thing) in own:
            return False
    return uses == 1


def _is_elementwise(graph: Traced, node: Node) -> bool:
    if node.op == "call_module":
        return type(graph.held(node)) in ELEMENTWISE
    if node.kwargs.get("inplace"):
        return False
    if node.op == "call_function":
        return getattr(node.target, "__name__", "") in FUNCTIONS
    return node.op == "call_method" and str(node.target) in FUNCTIONS
