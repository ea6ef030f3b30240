"""Intervals hold what a source scatters that was not there when they were learnt."""

import random

import pytest

from advisor.planning.physics import Parts
from advisor.planning.places import Place
from advisor.planning.predicting import Interval, Predicted
from benchmarks.plan_priors import residual, spreads
from benchmarks.plan_tasks import Answer, Task
from benchmarks.scaling_series import Series


def answers(source: str, scatter: float, *, fewer: bool = False) -> list[Answer]:
    """Forty programs of one source, each predicted once, with steps that lie so far about the prediction."""
    drawn = random.Random(source)
    made = []
    for k in range(40):
        series = Series(source, f"{source}{k}", (), None, None, None)
        step = Interval(100, 100, 100)
        predicted = Predicted(
            Place(8, 1), step, 100, False, Parts(100, 0, 0), 2, "one_node", scale=0.1, fewer=fewer
        )
        measured = 100 * (1 + abs(drawn.gauss(0, scatter)))
        made.append(Answer(Task("one_node", series, (), ()), predicted, 100, measured))
    return made


def reach(*scatters: float) -> float:
    by_source = {f"s{k}": answers(f"s{k}", scatter) for k, scatter in enumerate(scatters)}
    return spreads(by_source)["one_node"][1]


def test_sources_that_scatter_unlike_each_other_widen_intervals() -> None:
    """The pool of all would say less: four sources that hardly scatter outweigh the one that does."""
    assert reach(0.02, 0.02, 0.02, 0.02, 0.1) > 1.2 * reach(0.036, 0.036, 0.036, 0.036, 0.036)


def test_one_source_alone_does_not_widen_without_end() -> None:
    widest = max(map(residual, answers("s4", 0.1)))
    assert reach(0.0, 0.0, 0.0, 0.0, 0.1) <= 1.25 * widest


def test_towards_fewer_ranks_residuals_are_kept_apart() -> None:
    found = spreads({"a": answers("a", 0.1), "b": answers("b", 0.01, fewer=True)})
    assert found["one_node"][1] > 3 * found["one_node_fewer"][1]
    assert found["leaving"] == pytest.approx((-1, 1))  # nothing known
