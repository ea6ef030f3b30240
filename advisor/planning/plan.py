"""A plan: predictions for several counts, what they rest on, and what would make them narrower."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from advisor.base.errors import UsageError
from advisor.planning.doubts import doubts
from advisor.planning.effects.loading import Supply
from advisor.planning.goal import Goal
from advisor.planning.memory import Memory
from advisor.planning.network import Network
from advisor.planning.places import Place, Point, middles, ranks_of, shared_bytes
from advisor.planning.predicting import Interval, Predicted, Predictor
from advisor.planning.priors import Priors, Record
from advisor.planning.scheme import Scheme, kind_of
from advisor.planning.shares import SHARES

FAR, TOO_FAR = 16, 64  # times the most ranks measured: called far; only if asked for
SERVED = frozenset({"parameter_server", "async_parameter_server"})  # laws that count servers
PIPELINE = "pipeline"  # the strategy whose steps have a bubble
USUAL_NODE = 8  # GPUs of a node, where nothing tells

Batch = Literal["keep-local", "keep-global"]


@dataclass(frozen=True)
class Basis:
    """An input of the plan and where it comes from."""

    what: str
    tag: Literal["measured", "named", "assumed"]


@dataclass(frozen=True)
class LawUsed:
    """A law by which communication grows."""

    name: str
    formula: str
    source: str


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
    laws: tuple[LawUsed, ...] = ()
    doubts: tuple[str, ...] = ()  # what to look at again in what was measured

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
            "laws": [{"strategy": self.predictions[0].strategy, **asdict(row)} for row in self.laws],
            "doubts": list(self.doubts),
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
    network: Network | None = None,
    goal: Goal | None = None,
    far: bool = False,
    strategy: str = "as measured",
    memory: Memory | None = None,
    servers: int | None = None,
    ages: Mapping[Place, tuple[float, int]] | None = None,
    supply: Supply | None = None,
) -> Plan:
    """Predict every place that is asked for.

    Args:
        points: Measurements of one program.
        asked: Where it would run.
        network: Of the nodes, if it is named.
        goal: What is to be reached, for hours and price.
        far: Predict beyond 64 times the most ranks measured, too.
        strategy: What is told as the way of training; it chooses the laws by which communication grows.
        memory: Of a rank, where it was measured.
        servers: Of parameters; as many as ranks where it is left out.
        ages: Of gradients in updates, the median and the most, where asynchronous training told them.
        supply: Of samples on one node, where making an item was timed.

    Raises:
        UsageError: Nothing is left to predict.
    """
    speed = None if network is None else network.bytes_per_s(shared_bytes(points) or math.inf)
    parts = next((point.micro_batches for point in points if point.micro_batches), None)
    scheme = Scheme.of(strategy, servers, parts)
    predictor = Predictor(points, Priors.stored(), speed, scheme, supply)
    goal = goal or Goal()
    first = min(middles(points), key=lambda point: (point.place.ranks, point.place.nodes))
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
        tuple(rows),
        _basis(points, predictor, speed, goal, scheme, ages or {}),
        tuple(left_out),
        _narrower(points, rows),
        tuple(LawUsed(name, law.formula, law.source) for name, law in scheme.told),
        doubts(points),
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
    if memory is not None and kind_of(strategy) in SHARES:
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
        parts_ms=_parts_ms(predicted, strategy),
        beyond=predicted.beyond,
        far=predicted.beyond > FAR,
        note=_note(predicted, points) + _age_note(strategy, place),
        record=predicted.record,
    )


def _parts_ms(predicted: Predicted, strategy: str) -> dict[str, float]:
    parts = asdict(predicted.parts)
    return {part: ms for part, ms in parts.items() if part != "bubble_ms" or strategy == PIPELINE}


def _note(predicted: Predicted, points: Sequence[Point]) -> str:
    if predicted.measured:
        return "measured"
    said = ["predicted, not measured"]
    place, nodes = predicted.place, predicted.place.nodes
    if predicted.situation.startswith("leaving"):
        said.append(f"nothing measured {'of the network' if nodes > 1 else 'on one node'}")
    elif nodes > 2 and max(point.place.nodes for point in points) == 2:
        said.append("two nodes are a case of their own")
    if predicted.starved:
        said.append("the CPUs of a node prepare no more samples")
    if predicted.crowded:
        said.append("ranks of a node share more than links: the loader, CPUs or storage?")
    elif any(point.waits_for_data and place.per_node > point.place.per_node for point in points):
        said.append("ranks of a node share the loader's CPUs and storage, which steps wait for already")
    if predicted.beyond > FAR:
        said.append("far")
    return "; ".join(said)


def _age_note(strategy: str, place: Place) -> str:
    """What asynchronous training does to gradients: others update meanwhile (Dean and others, 2012)."""
    if not kind_of(strategy).startswith("async_") or place.ranks == 1:
        return ""
    return f"; gradients are up to {place.ranks - 1} updates old at equal speeds, which may take more samples"


def _basis(
    points: Sequence[Point],
    predictor: Predictor,
    network: float | None,
    goal: Goal,
    scheme: Scheme,
    ages: Mapping[Place, tuple[float, int]],
) -> tuple[Basis, ...]:
    counts = sorted({(point.place.ranks, point.place.nodes) for point in points})
    told = ", ".join(f"{ranks} on {nodes}" for ranks, nodes in counts[:12])
    more = f" and {len(counts) - 12} more" if len(counts) > 12 else ""
    counted = f"{len(counts)} count{'' if len(counts) == 1 else 's'}"
    rows = [Basis(f"steps at {counted} (ranks on nodes): {told}{more}", "measured")]
    if any(point.exposed_ms is not None for point in points):
        rows.append(Basis("exposed communication", "measured"))
    shared = shared_bytes(points)
    if shared is not None:
        counted_bytes = any(point.step_bytes is not None for point in points)
        rows.append(
            Basis(
                f"{shared / 1e6:.3g} MB shared in a step" + ("" if counted_bytes else ", four a parameter"),
                "measured",
            )
        )
    waits = [point.loader_ms / point.step_ms for point in points if point.loader_ms is not None]
    if waits:
        rows.append(Basis(f"wait for data: at most {max(waits):.0%} of a step", "measured"))
    waiting = [point for point in points if point.waits_for_data]
    if waiting:
        most = max(waiting, key=lambda point: point.place.per_node * point.place.local_batch / point.step_ms)
        gave = 1e3 * most.place.per_node * most.place.local_batch / most.step_ms
        to = ranks_of(most.place.per_node)
        words = f"loader of a node: {gave:,.0f} samples/s at most so far, with {to} waiting for it"
        rows.append(Basis(words, "measured"))
    if predictor.supply is not None:
        rows += _supplied(predictor.supply)
    if network is not None:
        used = predictor.network_ms is not None
        rest = "" if used else "; not used, since no bytes of a step are known"
        rows.append(Basis(f"network of a node: {network / 1e9:g} GB/s{rest}", "named"))
    if scheme.servers is None and set(scheme.names) & SERVED:
        rows.append(Basis("as many parameter servers as ranks", "assumed"))
    rows += [
        Basis(
            f"age of gradients of {ranks_of(place.ranks)}, in updates: "
            f"{middle:g} in the median, {most} at most",
            "measured",
        )
        for place, (middle, most) in sorted(ages.items(), key=lambda row: row[0].ranks)
    ]
    if scheme.has_stages:
        told_parts = any(point.micro_batches for point in points)
        words = f"{scheme.micro_batches} micro-batches: steps grow by the bubble as (m+p-1)/m with p stages"
        rows.append(Basis(words, "measured" if told_parts else "assumed"))
    if not scheme.known:
        rows.append(Basis("ranks exchange by all-reduce (--strategy names another way)", "assumed"))
    rows += [Basis(text, tag) for text, tag in goal.basis]
    rows.append(
        Basis(
            "how computing, waiting and links behave where nothing was measured: public programs", "assumed"
        )
    )
    return tuple(rows)


def _supplied(supply: Supply) -> list[Basis]:
    """What a node can give at most, and by what; other nodes are taken to be like it."""
    rows = []
    if supply.cpu_s > 0:
        most = supply.cpus / supply.cpu_s
        cores = f"{supply.cpus} CPU{'' if supply.cpus == 1 else 's'}"
        words = (
            f"{cores} of a node prepare {most:,.0f} samples/s at most, at {1e3 * supply.cpu_s:.3g} ms each"
        )
        rows.append(Basis(words, "measured"))
    if supply.read_bytes > 0 and math.isfinite(supply.bytes_per_s):
        most = supply.bytes_per_s / supply.read_bytes
        rows.append(
            Basis(f"storage of a node gives {most:,.0f} samples/s where nothing is cached", "measured")
        )
    return rows


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
