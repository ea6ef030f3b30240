"""Arguments of a call in a tree: found by keyword or position, set or taken out in the style around them."""

from collections.abc import Sequence

import libcst as cst

PLAIN = cst.SimpleWhitespace("")
AFTER_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
LITERALS = (cst.Integer, cst.Float, cst.SimpleString)
CONSTANTS = ("None", "True", "False")


def has_stars(call: cst.Call) -> bool:
    """Whether arguments are unpacked from somewhere else."""
    return any(argument.star for argument in call.args)


def argument(call: cst.Call, name: str, order: Sequence[str] = ()) -> cst.Arg | None:
    """The argument of that name.

    Args:
        call: Without unpacked arguments.
        name: As a keyword.
        order: Names of those that may be given by position.
    """
    for at, each in enumerate(call.args):
        written = (
            order[at] if each.keyword is None and at < len(order) else each.keyword and each.keyword.value
        )
        if written == name:
            return each
    return None


def with_argument(
    call: cst.Call, name: str, value: cst.BaseExpression, order: Sequence[str] = ()
) -> cst.Call:
    """The call with an argument set, as a keyword behind all others where it was not given."""
    present = argument(call, name, order)
    if present is not None:
        changed = present.with_changes(value=value)
        return call.with_changes(args=[changed if each is present else each for each in call.args])
    new = cst.Arg(
        value,
        keyword=cst.Name(name),
        equal=cst.AssignEqual(whitespace_before=PLAIN, whitespace_after=PLAIN),
    )
    if not call.args:
        return call.with_changes(args=[new])
    *before, last = call.args
    last, new = _joined(call, last, new)
    return call.with_changes(args=[*before, last, new])


def without_argument(call: cst.Call, name: str, order: Sequence[str] = ()) -> cst.Call:
    """The call without an argument that is given by keyword; as it is where it is not given."""
    present = argument(call, name, order)
    if present is None:
        return call
    left = [each for each in call.args if each is not present]
    if left and present is call.args[-1]:
        left[-1] = left[-1].with_changes(
            comma=present.comma, whitespace_after_arg=present.whitespace_after_arg
        )
    return call.with_changes(args=left)


def expression(code: str) -> cst.BaseExpression:
    """A Python expression as a node."""
    return cst.parse_expression(code)


def literal(node: cst.CSTNode | None) -> object:
    """The value of a number, text, ``None``, ``True`` or ``False``; ``...`` for anything else."""
    if isinstance(node, LITERALS):
        return node.evaluated_value
    if isinstance(node, cst.Name) and node.value in CONSTANTS:
        return {"None": None, "True": True, "False": False}[node.value]
    return ...


def _joined(call: cst.Call, last: cst.Arg, new: cst.Arg) -> tuple[cst.Arg, cst.Arg]:
    """The last argument and a new one behind it, on lines of their own where the others are."""
    comma = last.comma if isinstance(last.comma, cst.Comma) else None
    tail = last.whitespace_after_arg if comma is None else comma.whitespace_after
    style = _style(call)
    if not isinstance(style, cst.ParenthesizedWhitespace):
        last = last.with_changes(comma=AFTER_COMMA, whitespace_after_arg=PLAIN)
        return last, _ended(new, comma, tail)
    lines = style.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])
    end = tail
    if isinstance(tail, cst.ParenthesizedWhitespace):  # a comment stays with the argument that it follows
        lines = tail.with_changes(indent=style.indent, last_line=style.last_line)
        end = tail.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])
    last = last.with_changes(comma=cst.Comma(whitespace_after=lines), whitespace_after_arg=PLAIN)
    return last, _ended(new, comma, end)


def _style(call: cst.Call) -> cst.BaseParenthesizableWhitespace:
    """What stands between two arguments of the call."""
    if len(call.args) == 1:
        first = call.whitespace_before_args
        return first if isinstance(first, cst.ParenthesizedWhitespace) else AFTER_COMMA.whitespace_after
    between = call.args[-2].comma
    return between.whitespace_after if isinstance(between, cst.Comma) else AFTER_COMMA.whitespace_after


def _ended(new: cst.Arg, comma: cst.Comma | None, tail: cst.BaseParenthesizableWhitespace) -> cst.Arg:
    if comma is None:
        return new.with_changes(whitespace_after_arg=tail)
    return new.with_changes(comma=comma.with_changes(whitespace_after=tail))
