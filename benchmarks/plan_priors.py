"""Learn from published series what `advisor plan` takes from other programs, and store it.

`python -m benchmarks.plan_priors FOLDER` reads the CSV files of a folder (`scaling_series.py`) and writes
advisor/planning/priors.json: medians and spreads over programs, each source counted once, and the quantiles
of what predictions were off by, from predictions of each source by priors of all others. No measured row is
stored.
"""

import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from advisor.planning.growth import reference, situation
from advisor.planning.physics import Physics, Prior
from advisor.planning.places import Place
from advisor.planning.predicting import spread_name
from advisor.planning.priors import STORED, Priors
from benchmarks.plan_tasks import Answer, answers, points, splits, tasks
from benchmarks.scaling_series import Series, read

# Where the learning starts, as mean and standard deviation of logarithms: orders of magnitude alone.
WEAK: dict[str, tuple[float, float]] = {
    "waiting": (math.log(0.01), 1.0),
    "one_node": (math.log(0.1), 1.5),
    "two_nodes": (0.5, 1.0),
    "more_nodes": (0.3, 0.4),  # a ring of two is faster than one of three
    "sharing": (0.0, 0.3),
    "congestion": (math.log(0.07), 0.7),  # 3 to 12 % a doubling of nodes
    "latency": (-6.7, 1.5),  # of a message across nodes; a tree has two for each level
    "per_rank": (-11.7, 2.0),  # of a message; a ring has two for each rank
    "hidden": (0.0, 1.0),
    "fixed": (-3.0, 1.0),
    "two_nodes_named": (1.0, 1.0),
    "more_nodes_named": (0.2, 0.4),
}
LEAST_NARROWING = 0.5  # of a weak prior's spread: few sources cannot make one sharp
FAST, SLOW = 0.04, 0.03  # shares of residuals left outside on either side, were sources many
BEYOND_WIDEST = 1.25  # most that a source never seen is taken to scatter, over the one that scatters most
LEAST_REACH = 0.25  # of a source's quantile over the scale: about what repeated steps differ by
DISTANCES = (2.0, 4.0, 8.0, 16.0, 64.0, 1e9)

Values = Mapping[str, list[float]]  # by source


def learn(series: Sequence[Series]) -> dict[str, Any]:
    """Priors of physics and growth; ``spread`` and ``record`` are empty yet."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in series:
        if len(one.rows) < 3:
            continue
        places = [Place(row.ranks, row.nodes) for row in one.rows]
        fitted, named = _fitted(one)
        for name in _told(places):
            found[name][one.source].append(fitted.value(name))
        if named is not None and "two_nodes" in _told(places):
            for name in {"two_nodes", "more_nodes"} & _told(places):
                found[f"{name}_named"][one.source].append(named.value(name))
    physics = {}
    for name, (mean, sd) in WEAK.items():
        if name in found:
            mean, spread = _median(found[name])
            sd = min(max(spread, LEAST_NARROWING * sd), sd)
        physics[name] = (mean, sd)
    return {"physics": physics, "growth": _growth(series), "spread": {}, "record": {}}


@cache  # a source that is left out leaves the others' fits as they are
def _fitted(series: Series) -> tuple[Physics, Physics | None]:
    """By weak priors, and by those of a named network where it is."""
    weak = {name: Prior(*pair) for name, pair in WEAK.items()}
    named = None
    if series.gradient_bytes and series.node_bytes_per_s:
        named = Physics(points(series.rows), weak, 1e3 * series.gradient_bytes / series.node_bytes_per_s)
    return Physics(points(series.rows), weak), named


def _told(places: Sequence[Place]) -> set[str]:
    """The parameters that counts say something about."""
    told = {"waiting", "hidden"}
    inside = any(place.nodes == 1 < place.ranks for place in places)
    nodes = {place.nodes for place in places}
    told |= {"one_node"} if inside else set()
    told |= {"two_nodes"} if inside and max(nodes) > 1 else set()
    told |= {"more_nodes"} if 2 in nodes and max(nodes) > 2 else set()
    told |= {"congestion", "latency", "per_rank", "sharing"} if max(nodes) > 2 else set()
    return told


def _growth(series: Sequence[Series]) -> dict[str, tuple[float, float]]:
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in series:
        for task in (*tasks(one), *(task for task in splits(one) if task.kind == "nodes_first_one")):
            given = points(task.given)
            for row in task.asked:
                place = Place(row.ranks, row.nodes)
                start = reference(given, place)
                exponent = math.log(1e3 * row.time / start.step_ms) / math.log(row.ranks / start.place.ranks)
                found[situation(given, place, named=task.named)][one.source].append(exponent)
    result = {}
    for kind, by_source in found.items():
        middle = float(np.median([np.median(values) for values in by_source.values()]))
        off = [np.median(np.abs(np.array(values) - middle)) for values in by_source.values()]
        result[kind] = (middle, max(1.48 * float(np.median(off)), 0.005))
    return result


def _median(by_source: Values) -> tuple[float, float]:
    """Median, and 1.48 times the median distance from it, with every source of the same weight."""
    values = np.concatenate([np.array(found) for found in by_source.values()])
    weights = np.concatenate([np.full(len(found), 1 / len(found)) for found in by_source.values()])
    middle = _weighted(values, weights, 0.5)
    return middle, 1.48 * _weighted(np.abs(values - middle), weights, 0.5)


def _weighted(values: Any, weights: Any, share: float) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][min(np.searchsorted(reached, share), len(values) - 1)])


SITUATIONS = ("one_node", "one_count", "more_nodes", "more_nodes_once", "leaving", "leaving_named")
UNKNOWN = {spread_name(kind, fewer=fewer): (-1.0, 1.0) for kind in SITUATIONS for fewer in (False, True)}

Weighted = tuple[Any, Any]  # values and their weights


def left_out(series: Sequence[Series]) -> dict[str, list[Answer]]:
    """The answers for each source by priors of all others, without intervals yet."""
    found = {}
    for source in sorted({one.source for one in series}):
        stored = learn([one for one in series if one.source != source]) | {"spread": UNKNOWN}
        stored["growth"] = dict.fromkeys(SITUATIONS, (0.0, 0.02)) | stored["growth"]
        priors = Priors.of(stored)
        own = [task for one in series if one.source == source for task in (*tasks(one), *splits(one))]
        found[source] = [answer for task in own for answer in answers(task, priors)]
    return found


def residual(answer: Answer) -> float:
    """What was measured over what was predicted, in logarithms over the interval's scale."""
    predicted = answer.predicted
    return math.log(answer.measured_ms / predicted.step_ms.estimate) / predicted.scale


def spreads(by_source: Mapping[str, Iterable[Answer]]) -> dict[str, tuple[float, float]]:
    """The quantiles of residuals between which 90 % are asked for, by situation and direction.

    The wider of two: quantiles of all residuals, and what quantiles of the sources let expect of one that was
    never seen (`_of_a_new_source`). The first alone is too narrow: programs of one source are alike, and
    another source may scatter several times as much.
    """
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for source, given in by_source.items():
        for answer in given:
            programs = found.setdefault(answer.predicted.spread, {}).setdefault(source, {})
            programs.setdefault(answer.task.series.name, []).append(residual(answer))
    result = dict(UNKNOWN)
    for kind, sources in found.items():
        sign = -1 if kind.endswith(spread_name("", fewer=True)) else 1  # slow is what others did not expect
        own = {source: _each_once(list(programs.values()), sign) for source, programs in sources.items()}
        counts = [len(programs) ** 0.5 for programs in sources.values()]
        fast, slow = _of_all(list(own.values()), counts)
        new_fast, new_slow = _of_a_new_source(list(own.values()), counts)
        fast, slow = max(fast, new_fast), max(slow, new_slow)
        result[kind] = (-fast, slow) if sign > 0 else (-slow, fast)
    return result


def _each_once(programs: Sequence[Sequence[float]], sign: int) -> Weighted:
    """All residuals of a source, every program of the same weight."""
    values = np.concatenate([np.array(one) for one in programs])
    return sign * values, np.concatenate([np.full(len(one), 1 / len(one)) for one in programs])


def _of_all(sources: Sequence[Weighted], counts: Sequence[float]) -> tuple[float, float]:
    """How far to the fast and the slow side residuals of all sources lie, each by the root of its programs.

    A little more than 5 % and 95 %, and more on the slow side: a source that was never seen lies further out
    than those that were, the more so the fewer they are.
    """
    values = np.concatenate([own for own, _ in sources])
    weights = np.concatenate(
        [own / own.sum() * count for (_, own), count in zip(sources, counts, strict=True)]
    )
    few = len(sources) / (len(sources) + 1)
    return -_weighted(values, weights, FAST * few), _weighted(values, weights, 1 - SLOW * few)


def _of_a_new_source(sources: Sequence[Weighted], counts: Sequence[float]) -> tuple[float, float]:
    """The same from the 5 % and 95 % quantiles of each source: their mean in logarithms and one deviation.

    The deviation is that of predicting one more source, `sd sqrt(1 + 1/n)` with n sources; a source that
    scatters far less than the others must not widen it without end.
    """
    weights = np.array(counts) / sum(counts)
    many = 1 / float((weights**2).sum())  # as many sources of one weight
    sides = []
    for side, share in ((-1, 0.05), (1, 0.95)):
        reach = np.log([max(LEAST_REACH, side * _weighted(*own, share)) for own in sources])
        middle = float((weights * reach).sum())
        spread = float((weights * (reach - middle) ** 2).sum())
        deviation = math.sqrt(spread * many / (many - 1)) if len(sources) > 1 else 0.0
        widest = BEYOND_WIDEST * math.exp(reach.max())
        sides.append(min(widest, math.exp(middle + deviation * math.sqrt(1 + 1 / many))))
    return sides[0], sides[1]


def with_spread(answer: Answer, spread: tuple[float, float]) -> bool:
    """Whether the interval that a spread gives holds what was measured."""
    return spread[0] <= residual(answer) <= spread[1]


def main() -> None:
    """Learn, and write what is stored."""
    series = read(Path(sys.argv[1]))
    stored = learn(series)
    by_source = left_out(series)
    stored["spread"] = spreads(by_source)
    stored["record"] = records(by_source)
    rounded = json.loads(json.dumps(stored), parse_float=lambda text: round(float(text), 5))
    STORED.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")
    print(f"{len(series)} series of {len(by_source)} sources: {STORED.name} written")


def records(by_source: Mapping[str, Sequence[Answer]]) -> dict[str, list[dict[str, float]]]:
    """How the predictions of left out sources did, by situation and distance; intervals by other sources."""
    found: dict[tuple[str, float], list[tuple[Answer, bool]]] = defaultdict(list)
    for source, given in by_source.items():
        others = spreads({name: rows for name, rows in by_source.items() if name != source})
        for answer in given:
            if answer.predicted.fewer or answer.predicted.beyond <= 1:
                continue
            up_to = next(most for most in DISTANCES if answer.predicted.beyond <= most)
            inside = with_spread(answer, others[answer.predicted.spread])
            found[answer.predicted.situation, up_to].append((answer, inside))
    result: dict[str, list[dict[str, float]]] = defaultdict(list)
    for (kind, up_to), rows in sorted(found.items()):
        errors = [answer.error for answer, _ in rows]
        result[kind].append(
            {
                "up_to": up_to,
                "series": len({(answer.task.series.source, answer.task.series.name) for answer, _ in rows}),
                "mean_error": float(np.mean(errors)),
                "median_error": float(np.median(errors)),
                "trivial_error": float(
                    np.mean([abs(answer.perfect_ms / answer.measured_ms - 1) for answer, _ in rows])
                ),
                "covered": float(np.mean([inside for _, inside in rows])),
            }
        )
    return dict(result)


if __name__ == "__main__":
    main()
