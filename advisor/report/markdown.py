"""The form of Markdown for a pull request: tables, and as many sections as one comment holds."""

from collections.abc import Mapping, Sequence

from advisor.result import wording

MOST_NAME = 80
MOST_BYTES = 64_000  # a comment on a pull request holds 65,536 characters


# Zero-width space after @ and # because GitHub looks for mentions and issues after decoding entities.
ESCAPES = {c: f"&#{ord(c)};" for c in "&<>|`*_[]!~\\$"} | {"@": "&#64;&#8203;", "#": "&#35;&#8203;"}


def escaped(text: object, limit: int = 300) -> str:
    """User text as one line of Markdown that renders to itself, in a table too."""
    line = "".join(ESCAPES.get(c, c) for c in wording.shown(text, limit))
    line = line.replace("://", "&#58;//").replace("www.", "www&#46;")
    return line.strip() or "(empty)"


def code(text: object, limit: int = MOST_NAME) -> str:
    """User text as a code span; escaped text where a span could not hold it in a table."""
    line = wording.shown(text, limit)
    if not line.strip() or set(line) & set("|`\\"):
        return escaped(line, limit)
    return f"`{line}`"


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
