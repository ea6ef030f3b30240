"""A table in Markdown, under its heading; cells are escaped by who fills them."""

from collections.abc import Sequence


def section(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; none without rows.

    Args:
        title: Its heading; none if empty.
        head: Names of the columns.
        rows: Cells, one line of text each.
    """
    if not rows:
        return []
    lines = [head, ["---"] * len(head), *rows]
    heading = [f"### {title}", ""] if title else []
    return [*heading, *("| " + " | ".join(line) + " |" for line in lines)]
