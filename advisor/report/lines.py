"""Lines of text that fit a terminal."""

import re
import textwrap


def wrapped(lines: list[str], width: int) -> str:
    """Lines cut into shorter ones, each as deep as its text begins, behind a number too; ends with a newline.

    Args:
        lines: Without newlines.
        width: Longest line; 20 characters at least.
    """
    return "".join(_wrapped(line, max(width, 20)) + "\n" for line in lines)


def _wrapped(line: str, width: int) -> str:
    found = re.match(r"\s*(\d+\. )?", line)
    indent = " " * found.end() if found else ""
    return "\n".join(textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False))
