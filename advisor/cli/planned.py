"""A plan as ``advisor plan`` prints or writes it."""

import json
from pathlib import Path
from typing import Literal

from advisor.base.atomic_file import write_atomically
from advisor.base.errors import EnvironmentProblem, clean
from advisor.cli.output import tell, width
from advisor.cli.tables import table
from advisor.planning.plan import Plan
from advisor.planning.whole import Whole
from advisor.report import plan_lines as lines
from advisor.report.lines import wrapped


def shown_plan(whole: Whole, format: Literal["text", "json", "md", "html"]) -> str:
    """What is printed of a plan in this format."""
    if format == "json":
        return json.dumps(whole.as_json(), indent=2, allow_nan=False) + "\n"
    if format == "html":
        from advisor.report.pages.plan_page import render_plan

        return render_plan(whole)
    if format == "md":
        return lines.render_whole(whole)
    shown = []
    for plan in whole.plans:
        name = f"Strategy {clean(plan.predictions[0].strategy)}\n\n" if len(whole.plans) > 1 else ""
        shown.append(name + _text(plan))
    if whole.memory:
        said = wrapped([f"- {line}" for line in lines.memory_lines(whole.memory)], width())
        shown.append("Memory of one rank\n" + table(lines.memory_rows(whole.memory), width()) + "\n" + said)
    if whole.choices:
        shown.append("What to take\n\n" + "".join(f"- {line}\n" for line in whole.choices))
    if whole.compared:
        shown.append("Strategies compared\n\n" + "".join(f"- {row.sentence}\n" for row in whole.compared))
    return "\n".join(shown)


def write_plan(folder: Path, whole: Whole) -> None:
    """Write ``plan.html``, ``plan.json`` and ``plan.md``.

    Raises:
        EnvironmentProblem: The folder takes no files.
    """
    contents = {f"plan.{kind}": shown_plan(whole, kind) for kind in ("html", "json", "md")}
    try:
        folder.mkdir(exist_ok=True)
        for name, content in contents.items():
            write_atomically(folder / name, content)
    except OSError as error:
        raise EnvironmentProblem(
            f"cannot write to {clean(str(folder))}", cause=clean(error.strerror or str(error))
        ) from None
    for name in contents:
        tell(f"Wrote {clean(str(folder / name))}")


def _text(plan: Plan) -> str:
    columns = width()
    parts = [wrapped([lines.answer(plan), ""], columns), table(lines.rows(plan), columns)]
    parts.append("\n" + table([row[:-1] for row in lines.cost_rows(plan)], columns))
    parts.append("\n" + wrapped([f"- {line}" for line in lines.note_lines(plan)], columns))
    parts.append("\nParts of a step (model, scaled to it)\n" + table(lines.part_rows(plan), columns))
    for title, told in (
        ("It rests on", lines.basis_lines(plan)),
        (lines.LAWS_TITLE, lines.law_lines(plan)),
        ("How such predictions did on public programs", lines.record_lines(plan)),
        ("What else", lines.last_lines(plan)),
    ):
        if told:
            parts.append(f"\n{title}\n" + wrapped([f"- {line}" for line in told], columns))
    return "".join(parts)
