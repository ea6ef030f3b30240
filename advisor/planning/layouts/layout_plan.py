"""Steps of layouts, as measured or predicted, and the odds of each to be the fastest at its count."""

import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from advisor.base.errors import UsageError
from advisor.planning.layouts.layout import Layout, Shape, Timed
from advisor.planning.layouts.priors import LayoutPriors, Record
from advisor.planning.layouts.step_model import StepModel
from advisor.planning.odds import CLEAR, odds_of
from advisor.planning.places import ranks_of
from advisor.planning.plan import USUAL_NODE, Batch
from advisor.planning.predicting import Interval

TOLD = 0.05  # odds from which on a layout is named


@dataclass(frozen=True)
class LayoutPrediction:
    """What one layout would take; as measured where it was."""

    layout: Layout
    step_ms: Interval
    measured: bool
    odds: float  # of the highest throughput among all at its count

    @property
    def throughput(self) -> Interval:
        """Samples a second."""
        return _throughput(self.layout, self.step_ms)


@dataclass(frozen=True)
class LayoutPlan:
    """All layouts by count, the likeliest first."""

    predictions: tuple[LayoutPrediction, ...]
    measured: int
    record: dict[str, Record]  # by situation that occurs

    @property
    def sentences(self) -> list[str]:
        """One for each count: the fastest, or those that cannot be told apart."""
        said = []
        for ranks in sorted({row.layout.ranks for row in self.predictions}):
            rows = [row for row in self.predictions if row.layout.ranks == ranks]
            named = [row for row in rows if row.odds >= TOLD] or rows[:1]
            told = ", ".join(f"{row.layout.name} {row.odds:.0%}" for row in named)
            best = rows[0]
            verb = "is" if best.measured else "would be"
            if best.odds >= CLEAR:
                said.append(f"{ranks_of(ranks)}: {best.layout.name} {verb} fastest ({best.odds:.0%})")
            else:
                said.append(f"{ranks_of(ranks)}: cannot be told apart: {told}")
        return said

    @property
    def record_lines(self) -> list[str]:
        """How such choices did on public programs."""
        words = {"one_node": "on one node", "more_nodes": "across nodes"}
        return [
            f"{words[kind]}: the layout predicted fastest took {row.regret:.1%} longer than the fastest "
            f"measured (at most {row.largest_regret:.0%}) in {row.choices} choices; steps were off by "
            f"{row.mean_error:.1%}"
            for kind, row in self.record.items()
        ]

    def as_json(self) -> dict[str, Any]:
        """The document of `--format json`, without its version."""
        return {
            "layouts": [
                {
                    "ranks": row.layout.ranks,
                    "nodes": row.layout.nodes,
                    "tensor_parallel": row.layout.tensor,
                    "pipeline_stages": row.layout.stages,
                    "data_parallel": row.layout.replicas,
                    "micro_batch": row.layout.micro_batch,
                    "global_batch": row.layout.global_batch,
                    "step_ms": asdict(row.step_ms),
                    "throughput": asdict(row.throughput),
                    "measured": row.measured,
                    "odds": row.odds,
                }
                for row in self.predictions
            ],
            "choices": self.sentences,
            "back_test": {kind: asdict(row) for kind, row in self.record.items()},
        }


def plan_layouts(measured: Sequence[Timed], asked: Sequence[Layout]) -> LayoutPlan:
    """Predict every layout that is asked for.

    Args:
        measured: Of one machine, at least one.
        asked: At least one.
    """
    priors = LayoutPriors.stored()
    estimates = StepModel(measured, priors.rates, priors.together).steps_ms(asked)
    seen = {one.layout: one.step_ms for one in measured}
    steps = {}
    kinds = set()
    for layout, estimate in zip(asked, estimates, strict=True):
        if layout in seen:
            steps[layout] = Interval(seen[layout], seen[layout], seen[layout])
            continue
        kind = "one_node" if layout.nodes == 1 else "more_nodes"
        kinds.add(kind)
        low, high = priors.off[kind]
        steps[layout] = Interval(estimate, estimate * math.exp(low), estimate * math.exp(high))
    rows = []
    generator = random.Random(0)
    for ranks in sorted({layout.ranks for layout in steps}):
        here = {str(k): layout for k, layout in enumerate(steps) if layout.ranks == ranks}
        odds = odds_of({k: _throughput(one, steps[one]) for k, one in here.items()}, generator)
        rows += [LayoutPrediction(here[k], steps[here[k]], here[k] in seen, share) for k, share in odds]
    return LayoutPlan(tuple(rows), len(measured), {kind: priors.record[kind] for kind in sorted(kinds)})


def candidates(
    measured: Sequence[Timed], ranks: Sequence[int], per_node: int | None, batch: Batch = "keep-local"
) -> list[Layout]:
    """Layouts of the largest model measured that hold no more on a rank than some measured layout did.

    Tensors are split within a node by powers of two, layers evenly; micro-batches are powers of two.

    Raises:
        UsageError: At some count there is none.
    """
    largest = max(measured, key=lambda one: (one.layout.shape.parameters, one.layout.ranks)).layout
    width = per_node or (math.ceil(largest.ranks / largest.nodes) if largest.nodes > 1 else USUAL_NODE)
    held = max(one.layout.held_parameters for one in measured)
    activations = max(one.layout.held_activations for one in measured)
    found = []
    for count in ranks:
        samples = largest.global_batch * (1 if batch == "keep-global" else count / largest.ranks)
        here = [
            one
            for one in _dividing(largest.shape, count, width, samples)
            if one.held_parameters <= held and one.held_activations <= activations
        ]
        if not here:
            raise UsageError(
                f"no layout of {count} ranks holds as little on a rank as those that were measured",
                hint="`--at FILE` names layouts to predict; `--batch keep-global`",
            )
        found += here
    return found


def _dividing(shape: Shape, ranks: int, width: int, samples: float) -> list[Layout]:
    nodes = math.ceil(ranks / width)
    found = []
    for tensor in _powers(min(width, ranks)):
        for stages in range(1, min(shape.layers, ranks) + 1):
            if ranks % (tensor * stages) or shape.layers % stages or shape.heads % tensor:
                continue
            replicas = ranks // (tensor * stages)
            for micro in _powers(int(samples // replicas)):
                if samples % (replicas * micro) == 0:
                    found.append(Layout(shape, ranks, nodes, tensor, stages, micro, samples))
    return found


def _powers(most: int) -> list[int]:
    return [2**k for k in range(most.bit_length())] if most else []


def _throughput(layout: Layout, step: Interval) -> Interval:
    samples = 1e3 * layout.global_batch
    return Interval(samples / step.estimate, samples / step.high, samples / step.low)
