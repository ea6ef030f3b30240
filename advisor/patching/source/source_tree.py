"""Walking a libcst tree by its fields, which is many times faster than by its visitors."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import libcst as cst

SKIPPED = frozenset({
    "comma", "dot", "equal", "footer", "header", "indent", "lbrace", "lbracket", "leading_lines",
    "lines_after_decorators", "lpar", "newline", "rbrace", "rbracket", "rpar", "semicolon",
})  # fmt: skip
"""Fields that hold punctuation and white space, with those that begin with ``whitespace``."""


def rebuilt(node: cst.CSTNode, new: Mapping[int, Any], touched: Collection[int]) -> Any:
    """A node with what was replaced inside it; all that has nothing replaced inside stays the same object."""
    if id(node) in new:
        return new[id(node)]
    if id(node) not in touched:
        return node
    changes: dict[str, Any] = {}
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            changed: Any = rebuilt(value, new, touched)
        elif isinstance(value, tuple | list):
            changed = [each for child in value for each in _several(rebuilt(child, new, touched))]
            if list(map(id, changed)) == list(map(id, value)):
                continue
        else:
            continue
        if changed is not value:
            changes[name] = changed
    return node.with_changes(**changes)


def _several(node: Any) -> Sequence[Any]:
    """What takes a node's place in a block."""
    if node is cst.RemovalSentinel.REMOVE:
        return ()
    return tuple(node) if isinstance(node, cst.FlattenSentinel) else (node,)


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Parts of a node that are code; many times faster than its own ``children``."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, tuple | list):
            yield from value
        elif isinstance(value, cst.CSTNode):
            yield value


@cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    names = [each.name for each in fields(kind)]
    return tuple(name for name in names if name not in SKIPPED and not name.startswith("whitespace"))
