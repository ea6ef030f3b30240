"""The form of Markdown for a pull request: tables, and as many sections as one comment holds."""

from collections.abc import Mapping, Sequence

MOST_BYTES = 64_000  # a comment on a pull request holds 65,536 characters


def section(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; none without rows.

    Args:
        title: Its heading; none if empty.
        head: Names of the columns.
        rows: Cells, one line of text each, escaped by who fills them.
    """
    if not rows:
        return []
    lines = [head, ["---"] * len(head), *rows]
    heading = [f"### {title}", ""] if title else []
    return [*heading, *("| " + " | ".join(line) + " |" for line in lines)]


def counted(title: str, rows: Sequence[object], every: Sequence[object]) -> str:
    """``Not tried: 40 of 96`` where not all are shown."""
    return title if len(rows) == len(every) else f"{title}: {len(rows)} of {len(every)}"


def fitted(
    opening: Sequence[str], sections: Mapping[str, Sequence[str]], leave_out: Sequence[str], whole: str
) -> str:
    """All sections, or as many as fit a comment: whole ones go, never half a table, and are named.

    Args:
        opening: Lines that always stay.
        sections: Lines by name, in the order in which they stand; empty ones are passed over.
        leave_out: Names in the order in which they go.
        whole: Where everything is.
    """
    left_out: list[str] = []
    for name in [None, *leave_out]:
        if name is not None and sections.get(name):
            left_out.append(name)
        kept = [lines for title, lines in sections.items() if lines and title not in left_out]
        said = f"Left out to fit a comment: {', '.join(left_out)}. Everything is in {whole}."
        text = "\n\n".join("\n".join(lines) for lines in [opening, *kept, *([[said]] if left_out else [])])
        if len(text.encode()) < MOST_BYTES:
            break
    return text + "\n"
