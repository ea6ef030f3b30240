"""What is asked of `advisor plan` on published series: some counts given, others to be predicted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from advisor.planning.places import Place, Point
from advisor.planning.predicting import Predicted, Predictor
from advisor.planning.priors import Priors
from benchmarks.scaling_series import Row, Series

BEYOND = 4  # several nodes to at least so many times more


@dataclass(frozen=True)
class Task:
    """Counts that are given and counts that are asked for."""

    kind: str
    series: Series
    given: tuple[Row, ...]
    asked: tuple[Row, ...]
    named: bool = False

    def predictor(self, priors: Priors) -> Predictor:
        """From the given counts."""
        speed = self.series.node_bytes_per_s if self.named else None
        return Predictor(points(self.given, self.series.gradient_bytes), priors, speed)


@dataclass(frozen=True)
class Answer:
    """A prediction and what was measured."""

    task: Task
    predicted: Predicted
    perfect_ms: float  # the last given step
    measured_ms: float

    @property
    def error(self) -> float:
        """Relative, without sign."""
        return abs(self.predicted.step_ms.estimate / self.measured_ms - 1)

    @property
    def covered(self) -> bool:
        """Whether the interval holds what was measured."""
        return self.predicted.step_ms.low <= self.measured_ms <= self.predicted.step_ms.high


def points(rows: Sequence[Row], gradient_bytes: float | None = None) -> list[Point]:
    """Rows of a series as measurements."""
    return [Point(Place(row.ranks, row.nodes), 1e3 * row.time, step_bytes=gradient_bytes) for row in rows]


def tasks(series: Series) -> Iterator[Task]:
    """Every task that a series allows."""
    rows = series.rows
    one = tuple(row for row in rows if row.nodes == 1)
    many = tuple(row for row in rows if row.nodes > 1)
    small = tuple(row for row in one if row.ranks <= 4)
    large = tuple(row for row in one if row.ranks >= 8)
    if small and large:
        yield Task("one_node" if len(small) > 1 else "one_node_from_one_point", series, small, large)
    if one and many:
        yield Task("leaving", series, one, many)
        if series.gradient_bytes and series.node_bytes_per_s:
            yield Task("leaving_named", series, one, many, named=True)
    for k, last in enumerate(rows):
        asked = tuple(row for row in rows if row.ranks >= BEYOND * last.ranks)
        if last.nodes > 1 and asked:
            yield Task("more_nodes", series, rows[: k + 1], asked)


def splits(series: Series) -> Iterator[Task]:
    """Other ways to part a series into counts that are given and asked, as users may have measured them."""
    one = tuple(row for row in series.rows if row.nodes == 1)
    many = tuple(row for row in series.rows if row.nodes > 1)
    for rows, kind in ((one, "one_node"), (many, "nodes")):
        for k in range(1, len(rows)):
            yield Task(f"{kind}_first_{'one' if k == 1 else 'some'}", series, rows[:k], rows[k:])
            if k > 1:
                yield Task(f"{kind}_pair", series, rows[k - 2 : k], rows[k:])
            if k < len(rows) - 1:
                yield Task(f"{kind}_between", series, (rows[0], rows[-1]), (rows[k],))
                yield Task(f"{kind}_last_some", series, rows[k:], rows[:k])
            yield Task(f"{kind}_last_one", series, (rows[k],), rows[:k])
    two, beyond = [tuple(row for row in many if (row.nodes == 2) is so) for so in (True, False)]
    if two and beyond:
        yield Task("two_nodes", series, two, beyond)
    if one and many:
        for named in (False, True)[: 1 + bool(series.gradient_bytes and series.node_bytes_per_s)]:
            words = "_named" if named else ""
            yield Task(f"entering{words}", series, many, one, named)
            yield Task(f"leaving{words}_from_last", series, one[-1:], many, named)


def answers(task: Task, priors: Priors) -> Iterator[Answer]:
    """A task's predictions."""
    predictor = task.predictor(priors)
    for row in task.asked:
        predicted = predictor.at(Place(row.ranks, row.nodes))
        yield Answer(task, predicted, 1e3 * task.given[-1].time, 1e3 * row.time)
