"""Lines by which the wall clock says when a program ends, or how fast it learns: read, not run."""

import ast
import re
from collections.abc import Iterator

CLOCKS = (
    "time", "monotonic", "perf_counter", "process_time", "time_ns", "monotonic_ns", "perf_counter_ns", "now",
    "utcnow",
)  # fmt: skip
OWNERS = ("time", "datetime")  # of these functions, as a module or a class
IMPORTED = re.compile(rf"\bimport\b[^\n]*\b({'|'.join(OWNERS)})\b|\bfrom\s+({'|'.join(OWNERS)})\b")
RATES = ("lr", "learning_rate", "base_lr")
Lines = list[tuple[str, int]]


def clock_bound(source: str) -> Lines:
    """What the clock decides, ``end`` or ``rate``, and in which line; empty for what is no Python.

    A value counts as the clock's that was computed from a reading of it. A test counts that ends a loop, not
    one after which something is printed.
    """
    if not IMPORTED.search(source):  # spares parsing, 0.1 s of a long file
        return []
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in OWNERS
        for alias in node.names
        if alias.name in CLOCKS
    }
    values = _values(tree, imported)
    return sorted(set(_decided(tree, imported, values)), key=lambda each: each[1])


def _values(tree: ast.AST, imported: set[str]) -> set[str]:
    """Names that hold a time, or what was computed from one."""
    values: set[str] = set()
    assigned = [
        (target.id, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    ]
    before = -1
    while len(values) > before:
        before = len(values)
        values |= {name for name, value in assigned if _reads(value, imported, values)}
    return values


def _decided(tree: ast.AST, imported: set[str], values: set[str]) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.While) or (isinstance(node, ast.If) and _leaves(node)):
            if _reads(node.test, imported, values):
                yield "end", node.lineno
        elif (
            isinstance(node, ast.Assign)
            and any(map(_is_rate, node.targets))
            and _reads(node.value, imported, values)
        ):
            yield "rate", node.lineno


def _reads(node: ast.AST, imported: set[str], values: set[str]) -> bool:
    return any(
        (isinstance(each, ast.Name) and each.id in values)
        or (isinstance(each, ast.Call) and _is_clock(each.func, imported))
        for each in ast.walk(node)
    )


def _is_clock(function: ast.expr, imported: set[str]) -> bool:
    if isinstance(function, ast.Attribute) and function.attr in CLOCKS:
        owner = function.value
        name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
        return name in OWNERS
    return isinstance(function, ast.Name) and function.id in imported


def _leaves(node: ast.If) -> bool:
    return any(isinstance(each, ast.Break | ast.Return) for part in node.body for each in ast.walk(part))


def _is_rate(target: ast.expr) -> bool:
    if isinstance(target, ast.Subscript):
        return isinstance(target.slice, ast.Constant) and target.slice.value in RATES
    return (target.id if isinstance(target, ast.Name) else getattr(target, "attr", "")) in RATES
