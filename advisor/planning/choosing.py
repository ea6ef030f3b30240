"""Which count to take: most for the money, fastest that still gains, within a deadline or a sum."""

from collections.abc import Sequence

from advisor.planning.places import ranks_of
from advisor.planning.plan import Plan, Prediction
from advisor.planning.predicting import Interval

NO_ROOM = "does not fit"


def choices(
    plans: Sequence[Plan], deadline_hours: float | None = None, spend: float | None = None
) -> tuple[str, ...]:
    """Sentences about the counts that reach the goal; none without a goal.

    A count counts as within a limit if the slow end of its interval is. What does not fit into memory is
    no choice.
    """
    rows = [row for plan in plans for row in plan.predictions if row.hours and row.fit != NO_ROOM]
    if not rows:
        return ()
    several = len({row.strategy for row in rows}) > 1
    said = [f"fastest that still gains: {_told(_fastest(rows), several)}"]
    priced = [row for row in rows if row.price]
    if priced:
        said.insert(0, f"most for the money: {_told(min(priced, key=_price), several)}")
    if deadline_hours is not None:
        within = [row for row in rows if _slowest(row) <= deadline_hours]
        cheapest = min(within, key=lambda row: (_price(row), row.ranks)) if within else None
        said.append(_limited(f"in {deadline_hours:g} hours", cheapest, several))
    if spend is not None:
        within = [row for row in priced if row.price and row.price.high <= spend]
        said.append(_limited(f"for {spend:g}", _fastest(within) if within else None, several))
    return tuple(said)


def _fastest(rows: Sequence[Prediction]) -> Prediction:
    """By the slow end of the interval: what may gain nothing is no gain; of equals the fewest ranks."""
    return min(rows, key=lambda row: (_slowest(row), row.ranks))


def _slowest(row: Prediction) -> float:
    return row.hours.high if row.hours else float("inf")


def _price(row: Prediction) -> float:
    return row.price.estimate if row.price else float(row.ranks)


def _limited(limit: str, row: Prediction | None, several: bool) -> str:
    if row is None:
        return f"{limit}: no count that was asked for, with 95 % certainty"
    return f"{limit}: {_told(row, several)}"


def _told(row: Prediction, several: bool) -> str:
    name = f"{row.strategy}, " if several else ""
    assert row.hours is not None
    cost = f", {_between(row.price, '{:,.0f}', '')}" if row.price else ""
    return f"{name}{ranks_of(row.ranks)}, {_between(row.hours, '{:.3g}', ' hours')}{cost}"


def _between(value: Interval, written: str, unit: str) -> str:
    """An estimate, and its interval where there is one."""
    estimate, low, high = (written.format(one) for one in (value.estimate, value.low, value.high))
    return f"{estimate}{unit}" if value.low == value.high else f"{estimate}{unit} ({low} to {high})"
