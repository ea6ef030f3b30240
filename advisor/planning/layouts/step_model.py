"""The step of a transformer by its layout.

``t = m (stage + head) + (p-1) stage + dp + update`` for m micro-batches and p stages. A stage is its layers,
each ``(device^4 + launch^4)^(1/4) + tp``: products at a rate that small ones do not reach, what goes through
memory, and no less than launching the kernels takes; then the all-reduces of split tensors (four, Shoeybi
and others, 2019). ``dp`` is a ring over the replicas; across nodes the rings of one node share its cards.
Rates have weak priors learnt from public programs (``benchmarks/plan_layouts.py``); what was measured moves
them, and so makes up for what no column tells, as recomputation.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.planning.descent import Descent, Vector
from advisor.planning.layouts.layout import Layout, Shape, Timed
from advisor.planning.physics import Prior

NAMES = (
    "flops",  # of large products, a second
    "small",  # tokens x hidden / tensor at which half of that is reached
    "elements",  # hidden values a second through what only moves memory
    "scores",  # values of attention a second
    "launch",  # seconds of a layer that launching its kernels takes at least
    "tensor",  # bytes a second of sums within a node
    "tensor_latency",  # seconds of one such sum
    "tensor_across",  # bytes a second of them across nodes
    "replicas",  # bytes a second of gradients within a node
    "replicas_across",  # of a node
    "stages",  # bytes a second from stage to stage
    "update",  # parameters a second
    "head",  # cost of the last product over that of others
)
SUMS = 4  # all-reduces of a layer
HALF = 2  # bytes of a value on the wire
SOFT = 4.0  # how sharply the launching of kernels starts to count
NOISE = 0.06  # of a step, relative: layouts differ in more than this model holds


@dataclass(frozen=True)
class _Table:
    tensor: Vector
    stages: Vector
    replicas: Vector
    per_node: Vector
    micro: Vector
    micro_batches: Vector
    layers: Vector
    hidden: Vector
    sequence: Vector
    heads: Vector
    vocabulary: Vector

    @classmethod
    def of(cls, layouts: Sequence[Layout]) -> "_Table":
        def column(values: Sequence[float]) -> Vector:
            return np.array(values, float)

        shapes = [one.shape for one in layouts]
        return cls(
            tensor=column([one.tensor for one in layouts]),
            stages=column([one.stages for one in layouts]),
            replicas=column([one.replicas for one in layouts]),
            per_node=column([math.ceil(one.ranks / one.nodes) for one in layouts]),
            micro=column([one.micro_batch for one in layouts]),
            micro_batches=column([one.micro_batches for one in layouts]),
            layers=column([shape.layers for shape in shapes]),
            hidden=column([shape.hidden for shape in shapes]),
            sequence=column([shape.sequence for shape in shapes]),
            heads=column([shape.heads for shape in shapes]),
            vocabulary=column([shape.vocabulary for shape in shapes]),
        )


class StepModel:
    """The rates that fit measured layouts best, given their priors.

    What the model lacks, it lacks for all layouts of a model of one width: their errors go together, so many
    layouts of a small model say little more of a large one than a few do. Rows of another model than the one
    asked for count as ``n / (1 + (n - 1) together)`` (design effect, Kish, 1965).

    Args:
        measured: Of one machine, of one or several models; none leaves the priors alone.
        priors: By name, logarithms.
        together: Correlation of errors among layouts of one model, 0 to 1.
    """

    def __init__(self, measured: Sequence[Timed], priors: Mapping[str, Prior], together: float = 0.0) -> None:
        self._mean = np.array([priors[name].mean for name in NAMES])
        self._sd = np.array([priors[name].sd for name in NAMES])
        self._measured, self._together = list(measured), together
        self._shapes = {one.layout.shape for one in measured}
        self._known: dict[Shape | None, Vector] = {}

    def fitted(self, shape: Shape | None = None) -> Vector:
        """The rates, as logarithms, with which a model of some shape is predicted."""
        known = shape if shape in self._shapes else None
        if known not in self._known:
            self._known[known] = self._fit(known)
        return self._known[known]

    def steps_ms(self, layouts: Sequence[Layout]) -> list[float]:
        """Milliseconds of a step of each."""
        steps: dict[Layout, float] = {}
        for shape in {one.shape for one in layouts}:
            own = [one for one in layouts if one.shape == shape]
            seconds = _seconds(self.fitted(shape), _Table.of(own))
            steps |= {one: 1e3 * float(value) for one, value in zip(own, seconds, strict=True)}
        return [steps[one] for one in layouts]

    def _fit(self, shape: Shape | None) -> Vector:
        if not self._measured:
            return self._mean
        seen = _Table.of([one.layout for one in self._measured])
        told = np.log([one.step_ms / 1e3 for one in self._measured])
        rows = Counter(one.layout.shape for one in self._measured)
        if shape is not None:
            rows[shape] = 1  # its own errors are those of what is asked
        alike = [1 + (rows[one.layout.shape] - 1) * self._together for one in self._measured]
        noise = NOISE * np.sqrt(alike)

        def residuals(p: Vector) -> Vector:
            return np.asarray((np.log(_seconds(p, seen)) - told) / noise, float)

        return Descent(residuals, self._mean, self._sd).best([self._mean])


def _seconds(p: Vector, at: _Table) -> Vector:
    rate = dict(zip(NAMES, np.exp(p), strict=True))
    tokens = at.micro * at.sequence
    moved = HALF * tokens * at.hidden
    flops = 3 * (24 * tokens * at.hidden**2 + 4 * tokens * at.sequence * at.hidden) / at.tensor
    device = flops / rate["flops"] * (1 + rate["small"] * at.tensor / (tokens * at.hidden))
    device += tokens * at.hidden / rate["elements"]
    device += tokens * at.sequence * at.heads / at.tensor / rate["scores"]
    layer = (device**SOFT + rate["launch"] ** SOFT) ** (1 / SOFT)

    within = np.where(at.tensor <= at.per_node, rate["tensor"], rate["tensor_across"])
    sums = SUMS * (2 * (at.tensor - 1) / at.tensor * moved / within + rate["tensor_latency"])
    layer = layer + np.where(at.tensor > 1, sums, 0.0)

    passed = np.where(at.stages > 1, 2 * moved / rate["stages"], 0.0)
    stage = layer * at.layers / at.stages + passed
    head = rate["head"] * 6 * tokens * at.hidden * at.vocabulary / at.tensor / rate["flops"]
    piped = at.micro_batches * (stage + head) + (at.stages - 1) * stage

    held = (12 * at.layers * at.hidden**2 + at.vocabulary * at.hidden) / (at.tensor * at.stages)
    ring = 2 * (at.replicas - 1) / at.replicas * held * HALF
    rings = np.minimum(at.tensor, at.per_node)  # of one node, that share its cards
    across = at.tensor * at.replicas > at.per_node
    reduced = np.where(across, ring * rings / rate["replicas_across"], ring / rate["replicas"])
    return np.asarray(piped + reduced + held / rate["update"], float)
