"""Docstrings and names as Markdown of the site."""

import inspect
import re
from collections.abc import Mapping, Sequence

SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)
LOUD = re.compile(r"[<&\[\]]|\*(?!\s)")


def docstring(one: object) -> str:
    """The docstring of the class of a member, as Markdown that renders to what it says."""
    return prose(inspect.getdoc(type(one)) or "")


def prose(text: str, links: Mapping[str, str] | None = None) -> str:
    """Plain text with code in backticks as Markdown.

    Args:
        text: Paragraphs; code stands in one or two backticks.
        links: Pages by name: code that is such a name becomes a link to it.
    """
    parts, at = [], 0
    for span in SPAN.finditer(text):
        parts.append(_quiet(text[at : span.start()]))
        name = span[2].strip()
        page = (links or {}).get(name)
        parts.append(f"[`{name}`]({page})" if page else span[0])
        at = span.end()
    return "".join([*parts, _quiet(text[at:])])


def first_sentence(text: str) -> str:
    """Up to the first full stop that ends a sentence."""
    return re.split(r"(?<=\.)\s", " ".join(text.split()), maxsplit=1)[0]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; a line break or bar inside a cell does not end it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def fenced(code: str, language: str = "") -> str:
    """Code as a block, whatever backticks it holds."""
    longest = max((len(run) for run in re.findall("`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code}\n{fence}"


def _quiet(text: str) -> str:
    escapes = {"<": "&lt;", "&": "&amp;", "[": "&#91;", "]": "&#93;", "*": "&#42;"}
    return LOUD.sub(lambda found: escapes[found[0]], text)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "&#124;")
