"""The page of a plan: the answer, the fan, parts of a step, strategies, memory, time against price."""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.planning.memory import RankMemory
from advisor.planning.plan import Plan
from advisor.planning.whole import Whole
from advisor.report import plan_lines
from advisor.report.charts import plan_chart
from advisor.report.charts.charts import Chart
from advisor.report.rendering import rendered
from advisor.result.wording import shown

Rows = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class StrategyPlan:
    """What is drawn and listed of one strategy."""

    name: str
    answer: str
    fan: Chart
    parts: Chart
    price: Chart | None
    tables: list[tuple[str, Rows]]
    laws: list[str]


@dataclass(frozen=True)
class PlanPage:
    """Everything the page shows; a template only places it."""

    headline: str
    answer: str
    choices: list[str]
    plans: list[StrategyPlan]
    compared: list[str]
    odds: Chart | None
    memory: Chart | None
    memory_rows: Rows
    memory_said: str
    laws_title: str
    styles: list[tuple[str, str, str]]
    lists: list[tuple[str, list[str]]]


def plan_page(whole: Whole) -> PlanPage:
    """The page of everything that was planned."""
    first = whole.plans[0]
    most = max((row.ranks for row in whole.memory), default=0)
    largest = [row for row in whole.memory if row.ranks == most]
    best = _best(whole)
    return PlanPage(
        headline="What more ranks would give",
        answer=plan_lines.answer(best),
        choices=list(whole.choices),
        plans=[_strategy(at, plan) for at, plan in enumerate(whole.plans)],
        compared=[row.sentence for row in whole.compared],
        odds=plan_chart.odds_map("odds", whole.compared, whole.memory) if whole.compared else None,
        memory=plan_chart.memory_bars("memory", largest) if largest else None,
        memory_rows=plan_lines.memory_rows(whole.memory) if whole.memory else (),
        memory_said=" ".join(
            [_memory_said(largest), *(f"{line}." for line in plan_lines.memory_lines(whole.memory))]
        ),
        laws_title=plan_lines.LAWS_TITLE,
        styles=plan_chart.part_styles(),
        lists=[
            ("It rests on", plan_lines.basis_lines(first)),
            ("How such predictions did on public programs", plan_lines.record_lines(first)),
            ("What else", plan_lines.last_lines(first)),
        ],
    )


def render_plan(whole: Whole) -> str:
    """The plan as one HTML file that needs nothing else."""
    return rendered("plan.html.j2", plan_page(whole))


def _best(whole: Whole) -> Plan:
    """The plan of the strategy that is likeliest the fastest at the largest count."""
    if not whole.compared:
        return whole.plans[0]
    name = whole.compared[-1].odds[0][0]
    return next(plan for plan in whole.plans if plan.predictions[0].strategy == name)


def _strategy(at: int, plan: Plan) -> StrategyPlan:
    return StrategyPlan(
        name=shown(plan.predictions[0].strategy, 40),
        answer=plan_lines.answer(plan),
        fan=plan_chart.fan(f"fan-{at}", plan),
        parts=plan_chart.parts_of_steps(f"parts-{at}", plan),
        price=plan_chart.price_plane(f"price-{at}", plan),
        tables=[("By count", plan_lines.rows(plan)), ("What it gives and costs", plan_lines.cost_rows(plan))],
        laws=plan_lines.law_lines(plan),
    )


def _memory_said(rows: Sequence[RankMemory]) -> str:
    fitting = [row.strategy for row in rows if row.fit == "fits"]
    if not rows or all(row.fit == "unknown" for row in rows):
        return "How much memory there is, is not known: --gpu NAME tells it."
    ranks = f"At {rows[0].ranks} ranks"
    return f"{ranks} fit: {', '.join(fitting)}." if fitting else f"{ranks} none fits with room to spare."
