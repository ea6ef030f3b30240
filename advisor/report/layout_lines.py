"""A plan of layouts in words and tables."""

from advisor.planning.layouts.layout_plan import LayoutPlan
from advisor.report.markdown import escaped, section
from advisor.report.plan_lines import figures

HEADINGS = ("ranks", "layout", "step (90 % interval)", "odds", "")
MOST = 10  # rows told at each count; `--format json` has all
NOT_IN_IT = (
    "memory (proposed layouts hold no more parameters and activations on a rank than a measured one), "
    "interleaved stages, sequences split over ranks, sharded optimizers, other jobs on the network"
)


def layout_rows(plan: LayoutPlan) -> list[tuple[str, ...]]:
    """The likeliest at each count, the heading first."""
    told: dict[int, int] = {}
    rows: list[tuple[str, ...]] = [HEADINGS]
    for row in plan.predictions:
        layout = row.layout
        told[layout.ranks] = told.get(layout.ranks, 0) + 1
        if told[layout.ranks] > MOST:
            continue
        rows.append(
            (
                str(layout.ranks), layout.name, figures(row.step_ms, " ms"), f"{row.odds:.0%}",
                "measured" if row.measured else "predicted",
            )
        )  # fmt: skip
    return rows


def layout_sections(plan: LayoutPlan) -> list[tuple[str, list[str]]]:
    """What stands beside the table, by title."""
    left = len(plan.predictions) - len(layout_rows(plan)) + 1
    more = [f"{left} layouts with lower odds are in `--format json`"] if left else []
    basis = [
        f"measured: steps of {plan.measured} layouts",
        "assumed: rates of an A100 cluster, moved by these",
    ]
    return [
        ("Fastest", plan.sentences),
        ("It rests on", basis),
        ("How such choices did on public programs", plan.record_lines),
        ("What else", [*more, f"not in it: {NOT_IN_IT}"]),
    ]


def render_layouts(plan: LayoutPlan) -> str:
    """For a document or a pull request."""
    heading, *cells = layout_rows(plan)
    parts = section("Layouts", heading, [tuple(map(escaped, row)) for row in cells])
    for title, lines in layout_sections(plan):
        if lines:
            parts += ["", f"**{title}**", "", *(f"- {escaped(line, 1000)}" for line in lines)]
    return "\n".join(parts) + "\n"
