"""The statements from a model's forward to the loss, as far as they compute nothing else of weight.

What is found here may run under autocast as it was measured: the forward in fewer bits, all else in float32.
"""

from dataclasses import dataclass
from typing import Any

import libcst as cst

from advisor.patching.source.edit import CannotEdit
from advisor.patching.source.program_source import (
    Site,
    Source,
    Statement,
    assigned_names,
    dotted,
    method,
    value_of,
)

LOSSES = {
    "cross_entropy": "CrossEntropyLoss", "nll_loss": "NLLLoss", "mse_loss": "MSELoss", "l1_loss": "L1Loss",
    "smooth_l1_loss": "SmoothL1Loss", "huber_loss": "HuberLoss", "kl_div": "KLDivLoss",
    "binary_cross_entropy_with_logits": "BCEWithLogitsLoss", "cosine_embedding_loss": "CosineEmbeddingLoss",
    "hinge_embedding_loss": "HingeEmbeddingLoss", "margin_ranking_loss": "MarginRankingLoss",
    "soft_margin_loss": "SoftMarginLoss", "multi_margin_loss": "MultiMarginLoss",
}  # fmt: skip
"""Losses that torch computes in float32 under autocast, on CPU and GPU alike."""
FUNCTIONS = frozenset(f"torch.nn.functional.{name}" for name in LOSSES)
CLASSES = frozenset(f"torch.nn.{name}" for name in LOSSES.values())
SHAPES = (
    "contiguous", "expand", "flatten", "float", "permute", "reshape", "squeeze", "transpose", "unsqueeze",
    "view", "view_as",
)  # fmt: skip
"""Methods that leave numbers as they are."""
ARITHMETIC = (
    "abs",
    "clamp",
    "exp",
    "log",
    "mean",
    "neg",
    "norm",
    "pow",
    "sqrt",
    "square",
    "sub",
    "sum",
    "type_as",
)
HARMLESS = (
    *SHAPES,
    *ARITHMETIC,
    "argmax",
    "cuda",
    "detach",
    "item",
    "long",
    "max",
    "size",
    "to",
    "zero_grad",
)
BUILTINS = ("float", "int", "len", "max", "min", "range")
MADE = (
    "arange", "full", "full_like", "ones", "ones_like", "rand", "randint", "randn", "randn_like", "tensor",
    "zeros", "zeros_like",
)  # fmt: skip
MAKERS = frozenset(f"torch.{name}" for name in MADE)
OWN_LOSS = "loss"  # as models call the loss that they compute themselves


@dataclass(frozen=True)
class Found:
    """Lines of one block that follow each other; ``output`` is what has to be brought back to float32."""

    lines: tuple[cst.SimpleStatementLine, ...]
    output: cst.BaseExpression | None = None


@dataclass(frozen=True)
class _Use:
    """What becomes of an output: it goes to a known ``loss``, or into arithmetic.

    Attributes:
        whole: The output with what only picks a part of it or gives it another shape.
        picked: A part of it is picked.
    """

    into: str
    whole: cst.BaseExpression
    picked: bool


def loss_statements(source: Source, call: Site[cst.Call]) -> Found:
    """From the statement that calls the model to the one that computes the loss.

    Args:
        source: The program.
        call: The one call of the model in training.

    Raises:
        CannotEdit: The loop has another form.
    """
    start = source.statement(call)
    names = _names(source, start)
    end = _backward(source, start)
    losses = _used_by_backward(source, start.block.body[end])
    if _is_call_itself(value_of(_assignment(source, start)), call.node):
        if losses & set(names):
            return _from_loss(source, call, start, names, start.block.body[end])
        return _from_output(source, call, start, names, losses, end)
    if not losses & set(names):
        raise CannotEdit(f"what becomes of `{source.text(call.node)}` is not clear")
    use = _use(source, call)
    return _checked(source, start, start.at, call, use.whole if use.into != "loss" else None)


def _from_loss(
    source: Source, call: Site[cst.Call], start: Statement, names: list[str], backward: cst.CSTNode
) -> Found:
    """Where backward is called on what the model returned: a loss, or an output that becomes one there."""
    reads = _later_reads(source, names, start, call)
    at_backward = [site for site in reads if site.is_under(backward)]
    losses = {site.node.value for site in at_backward if _is_scalar(site)}
    further = [site for site in reads if site.node.value not in losses and not _is_own_loss(site)]
    if not further and not _carried(source, names, start, call):
        return _checked(source, start, start.at, call)
    if len(names) != 1 or any(_use(source, site).picked for site in further):
        raise CannotEdit(f"`{', '.join(names)}` is used further, in fewer bits than before")
    return _checked(source, start, start.at, call, value_of(_assignment(source, start)))


def _later_reads(source: Source, names: list[str], start: Statement, call: Site[cst.Call]) -> list[Site[Any]]:
    """Where names that a statement assigns are read in the same function, outside of it."""
    scope = source.scope(call)
    return [
        site for name in names for site in source.reads(name)
        if source.scope(site) is scope and not site.is_under(start.line)
    ]  # fmt: skip


def _from_output(
    source: Source, call: Site[cst.Call], start: Statement, names: list[str], losses: set[str], end: int
) -> Found:
    """Where the output has a name, and the loss is computed from it in a later statement."""
    reads = _later_reads(source, names, start, call)
    if reads and all(_is_own_loss(site) for site in reads):
        return _checked(source, start, start.at, call)
    last = max(
        (at for at in range(start.at + 1, end) if losses & _bound_by(start.block.body[at])), default=None
    )
    if last is None:
        raise CannotEdit(f"no loss is computed from `{', '.join(names)}` in the same block")
    inside = [
        site for site in reads if any(site.is_under(line) for line in start.block.body[start.at : last + 1])
    ]
    uses = [_use(source, site) for site in inside]
    plain = all(use.into == "loss" for use in uses)
    if not uses or (not plain and any(use.picked for use in uses)):
        raise CannotEdit(f"what becomes of `{', '.join(names)}` is not clear")
    if plain and len(inside) == len(reads) and not _carried(source, names, start, call):
        return _checked(source, start, last, call)
    if len(names) != 1 or any(use.picked for use in uses):
        raise CannotEdit(f"`{', '.join(names)}` is used further, in fewer bits than before")
    return _checked(source, start, last, call, value_of(_assignment(source, start)))


def _checked(
    source: Source,
    start: Statement,
    last: int,
    call: Site[cst.Call],
    output: cst.BaseExpression | None = None,
) -> Found:
    """The lines, if nothing else in them would compute in fewer bits."""
    lines = start.block.body[start.at : last + 1]
    kept: list[cst.SimpleStatementLine] = []
    for line in lines:
        if not isinstance(line, cst.SimpleStatementLine):
            raise CannotEdit("a block stands between the forward and the loss")
        if not all(
            isinstance(each, cst.Assign | cst.AnnAssign | cst.AugAssign | cst.Expr) for each in line.body
        ):
            raise CannotEdit(f"`{source.text(line)}` stands between the forward and the loss")
        kept.append(line)
        for site in source.sites(cst.Call, line):
            if site.node is not call.node and not _is_harmless(source, site):
                raise CannotEdit(f"`{source.text(site.node)}` would run under autocast, too")
        if source.sites(cst.MatrixMultiply, line):
            raise CannotEdit(
                f"`{source.text(line)}` multiplies matrices, which would run under autocast, too"
            )
    return Found(tuple(kept), output)


def _is_harmless(source: Source, site: Site[cst.Call]) -> bool:
    function = site.node.func
    path = source.path(function)
    if path is not None:
        return path in MAKERS or path in FUNCTIONS
    if dotted(function) in BUILTINS or _is_loss(source, site):
        return True
    return method(site.node) in HARMLESS


def _is_loss(source: Source, site: Site[cst.Call]) -> bool:
    """Whether a call computes a loss that torch keeps in float32."""
    function = site.node.func
    if source.path(function) in FUNCTIONS:
        return True
    if isinstance(function, cst.Call):
        return source.path(function.func) in CLASSES
    made = source.meaning(function, site)
    assigned = source.assignments(made) if made is not None else []
    if len(assigned) != 1:
        return False
    value: cst.BaseExpression = value_of(assigned[0].node)
    if source.path(value) in FUNCTIONS:
        return True
    if (
        isinstance(value, cst.Call)
        and method(value) in ("to", "cuda")
        and isinstance(value.func, cst.Attribute)
    ):
        value = value.func.value
    return isinstance(value, cst.Call) and source.path(value.func) in CLASSES


def _use(source: Source, output: Site[Any]) -> _Use:
    """What an output is used for, upwards from where it stands.

    Raises:
        CannotEdit: For something that is not known.
    """
    whole: cst.BaseExpression = output.node
    picked = False
    above = list(output.above)
    while above:
        node = above.pop()
        if isinstance(node, cst.Subscript) and node.value is whole:
            whole, picked = node, True
        elif isinstance(node, cst.Attribute) and node.value is whole and above:
            called = above.pop()
            if not isinstance(called, cst.Call) or called.func is not node:
                break
            if node.attr.value in ARITHMETIC:
                return _Use("arithmetic", whole, picked)
            if node.attr.value not in SHAPES:
                break
            whole = called
        elif isinstance(node, cst.Arg) and above and isinstance(above[-1], cst.Call):
            function = above[-1]
            if _is_loss(source, Site(function, tuple(above[:-1]), output.order)):
                return _Use("loss", whole, picked)
            raise CannotEdit(
                f"`{source.text(output.node)}` goes into `{source.text(function)}`, and whether autocast"
                " leaves that in float32 is not known"
            )
        elif isinstance(node, cst.BinaryOperation | cst.UnaryOperation):
            return _Use("arithmetic", whole, picked)
        else:
            break
    raise CannotEdit(f"what becomes of `{source.text(output.node)}` is not clear")


def _assignment(source: Source, statement: Statement) -> cst.Assign | cst.AnnAssign:
    only = statement.only
    if isinstance(only, cst.AnnAssign) and only.value is not None:
        return only
    if isinstance(only, cst.Assign) and len(only.targets) == 1:
        return only
    raise CannotEdit(f"`{source.text(statement.line)}` does not assign what the model returns")


def _names(source: Source, statement: Statement) -> list[str]:
    assigned = _assignment(source, statement)
    target = assigned.target if isinstance(assigned, cst.AnnAssign) else assigned.targets[0].target
    names = assigned_names(target)
    if names is None:
        raise CannotEdit(f"`{source.text(statement.line)}` assigns to more than plain names")
    return names


def _backward(source: Source, start: Statement) -> int:
    """Index of the next statement of the block in which backward is called."""
    for at in range(start.at + 1, len(start.block.body)):
        if source.methods("backward", under=start.block.body[at]):
            return at
    raise CannotEdit("no backward follows in the same block")


def _used_by_backward(source: Source, statement: cst.CSTNode) -> set[str]:
    """Plain names that backward is called on."""
    used: set[str] = set()
    for site in source.methods("backward", under=statement):
        if isinstance(site.node.func, cst.Attribute):
            used |= {name.node.value for name in source.sites(cst.Name, site.node.func.value)}
    return used


def _bound_by(statement: cst.CSTNode) -> set[str]:
    """Names that a simple statement binds."""
    found: set[str] = set()
    for each in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
        targets = [target.target for target in each.targets] if isinstance(each, cst.Assign) else []
        if isinstance(each, cst.AnnAssign | cst.AugAssign):
            targets = [each.target]
        for target in targets:
            found |= set(assigned_names(target) or ())
    return found


def _is_call_itself(value: cst.BaseExpression, call: cst.Call) -> bool:
    """Whether a value is what the model returned, one part of it, or the same in another shape."""
    while value is not call:
        if isinstance(value, cst.Subscript | cst.Attribute):
            value = value.value
        elif isinstance(value, cst.Call) and method(value) in SHAPES:
            value = value.func
        else:
            return False
    return True


def _is_scalar(site: Site[Any]) -> bool:
    """Whether backward is called on a name itself, or on a multiple of it: ``(loss / 4).backward()``."""
    below: cst.CSTNode = site.node
    for node in reversed(site.above):
        if isinstance(node, cst.Attribute):
            return node.value is below and node.attr.value == "backward"
        if not isinstance(node, cst.BinaryOperation | cst.UnaryOperation):
            return False
        below = node
    return False


def _is_own_loss(site: Site[Any]) -> bool:
    """Whether only the loss is taken from what a model returned."""
    above = site.above[-1]
    if isinstance(above, cst.Attribute):
        return above.attr.value == OWN_LOSS
    if isinstance(above, cst.Subscript) and len(above.slice) == 1:
        index = above.slice[0].slice
        key = index.value if isinstance(index, cst.Index) else None
        return isinstance(key, cst.SimpleString) and key.evaluated_value == OWN_LOSS
    return False


def _carried(source: Source, names: list[str], start: Statement, call: Site[cst.Call]) -> bool:
    """Whether the statement itself reads what it assigns: the output of one step goes into the next."""
    return any(site.is_under(start.line) for name in names for site in source.reads(name))
