"""A points file of layouts: measured steps, or layouts that are asked for in the same columns."""

from pathlib import Path

from advisor.base.errors import UsageError
from advisor.planning.layouts.layout import HEAD, VOCABULARY, Layout, Shape, Timed
from advisor.planning.points_file import Cells, columns, positive, read_rows, whole

TELLING = ("tensor_parallel", "pipeline_stages")
NEEDED = (
    "ranks", "nodes", "global_batch", "tensor_parallel", "pipeline_stages", "micro_batch", "layers",
    "hidden", "sequence",
)  # fmt: skip
OPTIONAL = ("heads", "vocabulary")


def holds_layouts(path: Path) -> bool:
    """Whether a file has a column of layouts."""
    return bool(columns(path) & set(TELLING))


def read_timed(path: Path) -> list[Timed]:
    """The measured layouts of a file.

    Raises:
        UsageError: It lacks a column, or holds what cannot have been measured; with the line.
    """
    return [
        Timed(_layout(where, cells), positive(where, cells, "step_ms"))
        for where, cells in read_rows(path, (*NEEDED, "step_ms"))
    ]


def read_layouts(path: Path) -> list[Layout]:
    """The layouts that a file names, in its order.

    Raises:
        UsageError: As for measured ones.
    """
    return [_layout(where, cells) for where, cells in read_rows(path, NEEDED)]


def _layout(where: str, cells: Cells) -> Layout:
    hidden = whole(where, cells, "hidden")
    shape = Shape(
        layers=whole(where, cells, "layers"),
        hidden=hidden,
        sequence=whole(where, cells, "sequence"),
        heads=whole(where, cells, "heads") if cells.get("heads") else max(1, hidden // HEAD),
        vocabulary=whole(where, cells, "vocabulary") if cells.get("vocabulary") else VOCABULARY,
    )
    ranks, nodes = whole(where, cells, "ranks"), whole(where, cells, "nodes")
    if nodes > ranks:
        raise UsageError(f"{ranks} ranks cannot lie on {nodes} nodes", where=where)
    try:
        return Layout(
            shape,
            ranks,
            nodes,
            whole(where, cells, "tensor_parallel"),
            whole(where, cells, "pipeline_stages"),
            whole(where, cells, "micro_batch"),
            positive(where, cells, "global_batch"),
        )
    except ValueError as error:
        raise UsageError(str(error), where=where) from None
