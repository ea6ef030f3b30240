"""A plan: predictions for several counts, what they rest on, and what would make them narrower."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from advisor.base.errors import UsageError
from advisor.planning.goal import Goal
from advisor.planning.memory import SHARES, Memory
from advisor.planning.places import Place, Point
from advisor.planning.predicting import Interval, Predicted, Predictor
from advisor.planning.priors import Priors, Record

FAR, TOO_FAR = 16, 64  # times the most ranks measured: called far; only if asked for
USUAL_NODE = 8  # GPUs of a node, where nothing tells

Batch = Literal["keep-local", "keep-global"]


@dataclass(frozen=True)
class Basis:
    """An input of the plan and where it comes from."""

    what: str
    tag: Literal["measured", "named", "assumed"]


@dataclass(frozen=True)
class Prediction:
    """What one count would give; as measured where it was."""

    ranks: int
    nodes: int
    local_batch: float
    strategy: str
    step_ms: Interval
    trivial_step_ms: float
    measured: bool
    throughput: Interval  # samples a second
    speedup: Interval  # over the fewest ranks measured
    peak_bytes: Interval | None  # of one rank
    fit: str  # whether that fits into memory; empty where nothing is known
    hours: Interval | None  # until the samples that were asked for are seen
    price: Interval | None
    parts_ms: dict[str, float]
    beyond: float  # ranks over the most ranks measured
    far: bool
    note: str
    record: Record | None


@dataclass(frozen=True)
class Plan:
    """All predictions, in the order in which they were asked for."""

    predictions: tuple[Prediction, ...]
    basis: tuple[Basis, ...]
    left_out: tuple[str, ...]
    narrower: str  # the measurement that would narrow it most

    @property
    def back_test(self) -> dict[str, Any]:
        """How such predictions did on public data, for each distance that occurs."""
        rows = {
            f"{row.ranks} ranks on {row.nodes} nodes": asdict(row.record)
            for row in self.predictions
            if row.record
        }
        return {"source": "benchmarks/results/plan.md, each source predicted by all others", "rows": rows}

    def as_json(self) -> dict[str, Any]:
        """The document of `--format json`, without its version."""
        return {
            "predictions": [
                {name: value for name, value in asdict(row).items() if name != "record"}
                for row in self.predictions
            ],
            "basis": [asdict(row) for row in self.basis],
            "back_test": self.back_test,
            "left_out": list(self.left_out),
            "narrower": self.narrower,
        }


def places(
    points: Sequence[Point], ranks: Sequence[int], per_node: int | None, batch: Batch = "keep-local"
) -> list[Place]:
    """The places of some counts: as measured where one was, else nodes filled one after the other."""
    last = max(points, key=lambda point: (point.place.ranks, point.place.nodes)).place
    width = per_node or (last.per_node if last.nodes > 1 else max(USUAL_NODE, last.per_node))
    found = []
    for count in ranks:
        local = last.local_batch
        if batch == "keep-global":
            local = last.local_batch * last.ranks / count
        measured = [p.place for p in points if (p.place.ranks, p.place.local_batch) == (count, local)]
        nodes = math.ceil(count / width)
        alike = [place for place in measured if place.nodes == nodes or per_node is None]
        found.append(min(alike, key=lambda place: place.nodes) if alike else Place(count, nodes, local))
    return found


def make_plan(
    points: Sequence[Point],
    asked: Sequence[Place],
    *,
    network: float | None = None,
    goal: Goal | None = None,
    far: bool = False,
    strategy: str = "as measured",
    memory: Memory | None = None,
) -> Plan:
    """Predict every place that is asked for.

    Args:
        points: Measurements of one program.
        asked: Where it would run.
        network: Bytes a second that one node sends, if the network is named.
        goal: What is to be reached, for hours and price.
        far: Predict beyond 64 times the most ranks measured, too.
        strategy: What is told as the way of training.
        memory: Of a rank, where it was measured.

    Raises:
        UsageError: Nothing is left to predict.
    """
    predictor = Predictor(points, Priors.stored(), network)
    goal = goal or Goal()
    first = min(points, key=lambda point: (point.place.ranks, point.place.nodes))
    rows, left_out = [], []
    for place in asked:
        predicted = predictor.at(place)
        if predicted.beyond > TOO_FAR and not far:
            left_out.append(
                f"{place.ranks} ranks: {predicted.beyond:g} times the most measured; --far predicts it"
            )
            continue
        rows.append(_prediction(predicted, first, points, strategy, goal, memory))
    if not rows:
        raise UsageError(
            f"every count is more than {TOO_FAR} times what was measured",
            hint="`--far`, or measure at more ranks",
        )
    return Plan(
        tuple(rows), _basis(points, predictor, network, goal), tuple(left_out), _narrower(points, rows)
    )


def _prediction(
    predicted: Predicted,
    first: Point,
    points: Sequence[Point],
    strategy: str,
    goal: Goal,
    memory: Memory | None,
) -> Prediction:
    place, step = predicted.place, predicted.step_ms
    throughput = _inverse(step, 1e3 * place.ranks * place.local_batch)
    before = 1e3 * first.place.ranks * first.place.local_batch / first.step_ms
    peak, fit = None, ""
    hours = goal.hours(step, place, first.place.ranks * first.place.local_batch)
    if memory is not None and strategy in SHARES:
        found = memory.at(strategy, place)
        peak, fit = Interval(found.peak_bytes, found.peak_bytes, found.high_bytes), found.fit
    return Prediction(
        ranks=place.ranks,
        nodes=place.nodes,
        local_batch=place.local_batch,
        strategy=strategy,
        step_ms=step,
        trivial_step_ms=predicted.trivial_ms,
        measured=predicted.measured,
        throughput=throughput,
        speedup=_times(throughput, 1 / before),
        peak_bytes=peak,
        fit=fit,
        hours=hours,
        price=goal.cost(hours, place.ranks),
        parts_ms=asdict(predicted.parts),
        beyond=predicted.beyond,
        far=predicted.beyond > FAR,
        note=_note(predicted, points),
        record=predicted.record,
    )


def _note(predicted: Predicted, points: Sequence[Point]) -> str:
    if predicted.measured:
        return "measured"
    said = ["predicted, not measured"]
    nodes = predicted.place.nodes
    if nodes > 1 and predicted.situation.startswith("leaving"):
        said.append("nothing measured of the network")
    elif nodes > 2 and max(point.place.nodes for point in points) == 2:
        said.append("two nodes are a case of their own")
    if predicted.beyond > FAR:
        said.append("far")
    return "; ".join(said)


def _basis(
    points: Sequence[Point], predictor: Predictor, network: float | None, goal: Goal
) -> tuple[Basis, ...]:
    counts = sorted({(point.place.ranks, point.place.nodes) for point in points})
    told = ", ".join(f"{ranks} on {nodes}" for ranks, nodes in counts[:12])
    more = f" and {len(counts) - 12} more" if len(counts) > 12 else ""
    rows = [Basis(f"steps at {len(counts)} counts (ranks on nodes): {told}{more}", "measured")]
    if any(point.exposed_ms is not None for point in points):
        rows.append(Basis("exposed communication", "measured"))
    if network is not None:
        used = predictor.network_ms is not None
        rest = "" if used else "; not used, since no bytes of a step are known"
        rows.append(Basis(f"network of a node: {network / 1e9:g} GB/s{rest}", "named"))
    rows += [Basis(text, tag) for text, tag in goal.basis]
    rows.append(
        Basis(
            "how computing, waiting and links behave where nothing was measured: public programs", "assumed"
        )
    )
    return tuple(rows)


def _narrower(points: Sequence[Point], rows: Sequence[Prediction]) -> str:
    """The first gap on the way from what was measured to what was asked."""
    nodes = max(point.place.nodes for point in points)
    counts = {point.place.ranks for point in points}
    if all(row.measured for row in rows):
        return "nothing: every count was measured"
    if any(row.nodes > 1 for row in rows) and nodes == 1:
        return "two nodes, and three or four, for two minutes each: nothing is known of the network yet"
    if any(row.nodes > 2 for row in rows) and nodes == 2:
        return "three or four nodes for two minutes: two nodes are a case of their own"
    if len(counts) == 1:
        return "a second count for two minutes: one count tells nothing of communication"
    most = max(counts)
    asked = max(row.ranks for row in rows)
    between = 2 ** round(math.log2(max(2.0, math.sqrt(asked / most))))
    return f"{most * between} ranks for two minutes" if asked > most else "the count itself for two minutes"


def _times(value: Interval, factor: float) -> Interval:
    return Interval(value.estimate * factor, value.low * factor, value.high * factor)


def _inverse(value: Interval, over: float) -> Interval:
    return Interval(over / value.estimate, over / value.high, over / value.low)
