"""``advisor plan`` of layouts: read, predict, print."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from advisor.cli.output import width, write
from advisor.cli.tables import table
from advisor.planning.layouts.layout_file import read_layouts, read_timed
from advisor.planning.layouts.layout_plan import LayoutPlan, candidates, plan_layouts
from advisor.planning.plan import Batch
from advisor.planning.whole import SCHEMA_VERSION
from advisor.report.layout_lines import layout_rows, layout_sections, render_layouts
from advisor.report.lines import wrapped


def show_layouts(
    file: Path, at: Path | None, ranks: Sequence[int] | None, per_node: int | None, batch: Batch,
    form: Literal["text", "json", "md"],
) -> None:  # fmt: skip
    """Print which layouts would be fastest.

    Args:
        file: Measured layouts.
        at: Layouts to predict; else those that divide at each count.
        ranks: Counts; those that were measured if ``None``.
        per_node: Ranks that fit on a node.
        batch: What stays when the count changes.
        form: How it is told.

    Raises:
        UsageError: A file, or what is asked for, cannot be meant.
    """
    measured = read_timed(file)
    if at is not None:
        asked = read_layouts(at)
    else:
        counts = ranks or sorted({one.layout.ranks for one in measured})
        asked = candidates(measured, counts, per_node, batch)
        asked += [one.layout for one in measured if one.layout.ranks in counts and ranks is None]
    plan = plan_layouts(measured, asked)
    if form == "json":
        document = {"schema_version": SCHEMA_VERSION, **plan.as_json()}
        write(json.dumps(document, indent=2, allow_nan=False) + "\n")
    else:
        write(render_layouts(plan) if form == "md" else _text(plan))


def _text(plan: LayoutPlan) -> str:
    parts = [table(layout_rows(plan), width())]
    for title, told in layout_sections(plan):
        if told:
            parts.append(f"\n{title}\n" + wrapped([f"- {line}" for line in told], width()))
    return "".join(parts)
