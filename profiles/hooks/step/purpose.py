"""What a forward without training is for, as far as the program's own lines tell: read, not run."""

import ast
import re
import sys
from types import FrameType

from advisor.profiles.hooks.user_lines import LIBRARIES, is_ours, place_of

SAID = re.compile(r"(^|_)(e?val(?!ue)|test|score|visuali[sz])", re.IGNORECASE)  # a `get_value` learns
NAMED = re.compile(  # variables: `state_val` may be a value, and `scores` may be learnt from
    r"^(eval|test)|^val_|^valid(ation)?_(?!mask|ind|idx|len)|_(eval|test|valid(ation)?)(_|s?$)|^[xy]_val$",
    re.IGNORECASE,
)
SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)


def judges(frame: FrameType | None = None) -> bool:
    """Whether lines of the program that are running only look at the model, and nothing is learnt from them.

    They do where a function is named after it, where the innermost line names what it works with so
    (``x_test``), or where an ``if`` lets them run every so many turns only, by the remainder of a count. A
    policy that plays does so between all updates.

    Args:
        frame: The innermost; the caller without one.
    """
    frame, innermost = frame or sys._getframe(1), True
    while frame is not None:
        code = frame.f_code
        if not (is_ours(frame) or code.co_filename.startswith(LIBRARIES)):
            source, line = _source(code.co_filename), place_of(frame).line
            if SAID.search(code.co_name) or in_turns(source, line) or (innermost and names_it(source, line)):
                return True
            innermost = False
        frame = frame.f_back
    return False


def names_it(source: str, line: int) -> bool:
    """Whether the simple statement at a line works with something that is named after an evaluation."""
    return any(
        NAMED.search(name)
        for node in _nodes(source)
        if isinstance(node, SIMPLE) and node.lineno <= line <= (node.end_lineno or 0)
        for part in ast.walk(node)
        for name in (getattr(part, "id", ""), getattr(part, "attr", ""))
    )


def in_turns(source: str, line: int) -> bool:
    """Whether the line is in the body of an ``if`` that tests the remainder of a division."""
    return any(
        isinstance(node, ast.If)
        and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0)
        and any(map(_is_remainder, ast.walk(node.test)))
        for node in _nodes(source)
    )


def _nodes(source: str) -> list[ast.AST]:
    """Of its syntax tree; none of what is no program."""
    try:
        return list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return []


def _is_remainder(node: ast.AST) -> bool:
    written = isinstance(node, ast.BinOp) and isinstance(node.left, ast.Constant)  # `"%d" % count`
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and not written


def _source(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as text:
            return text.read()
    except OSError:
        return ""
