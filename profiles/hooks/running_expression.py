"""What a frame computes at this moment, in the words of its source: ``random.sample``, ``memory[index]``."""

import ast
import linecache
import re
from itertools import islice
from types import FrameType

LONGEST = 40  # characters of an expression that is no call; more of a line says no more than its number
ENTERED = re.compile(r"with\s+([\w.]+)(?:\s+as\s+\w+)?\s*:")
TEXT = "an f-string"  # an expression that turns values into text

Span = tuple[str, int, int, int, int]
"""A part of a source file: its path, first and last line, first and last column in bytes."""


def span_of(frame: FrameType) -> Span | None:
    """Where in the source the instruction is that the frame runs (PEP 657); ``None`` where Python lost it."""
    code = frame.f_code
    found = next(islice(code.co_positions(), max(0, frame.f_lasti) // 2, None), None)
    if found is None:
        return None
    first, last, begin, end = found
    if first is None or last is None or begin is None or end is None:
        return None
    return code.co_filename, first, last, begin, end


def expression(span: Span) -> str:
    """The name of what is called there, or the expression if it is short; empty where neither is found."""
    file, first, last, begin, end = span
    lines = [linecache.getline(file, number).encode() for number in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    entered = ENTERED.match(linecache.getline(file, first).strip())
    lines[0] = lines[0][begin:]
    if entered is not None and b"(" not in lines[0]:  # of it, or of all the statement, entering is told
        return f"with {entered[1]}"
    try:
        text = b"".join(lines).decode().strip()
        parsed = ast.parse(f"({text})", mode="eval").body
    except (SyntaxError, ValueError):  # part of a statement, or a file that changed
        return ""
    if isinstance(parsed, ast.JoinedStr | ast.FormattedValue):
        return TEXT
    if isinstance(parsed, ast.Call):
        return _called(parsed.func)
    return text if len(text) <= LONGEST and not isinstance(parsed, ast.Constant | ast.Name) else ""


def _called(function: ast.expr) -> str:
    """``json.loads``; of a method of what is computed there, ``.float``."""
    parts: list[str] = []
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if isinstance(function, ast.Name):
        parts.append(function.id)
    else:
        parts.append("")
    return ".".join(reversed(parts))
