"""Rows as aligned text that fits a terminal."""

from collections.abc import Sequence

from advisor.base.errors import clean

NARROWEST = 5


def table(rows: Sequence[Sequence[str]], width: int) -> str:
    """Columns two spaces apart, the first row the heading; cells are cut so that lines fit ``width``.

    The widest columns are cut first, none below five characters.
    """
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    while sum(widths) + 2 * (len(widths) - 1) > width and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1
    lines = (
        "  ".join(_cut(cell, most).ljust(most) for cell, most in zip(row, widths, strict=True))
        for row in cells
    )
    return "".join(line.rstrip() + "\n" for line in lines)


def _cut(cell: str, most: int) -> str:
    return cell if len(cell) <= most else cell[: most - 3] + "..."
