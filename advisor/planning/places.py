"""Where and with which batch a program ran, or would run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from advisor.planning.effects.loading import Supply

WAITS = 0.05  # share of a step that waits for data, from which on the loader is a limit (rule input_bound)


@dataclass(frozen=True)
class Place:
    """Ranks on nodes with a local batch."""

    ranks: int
    nodes: int
    local_batch: float = 1.0
    widest: int = 0  # most ranks on one node; 0 when they are spread as evenly as can be

    @property
    def per_node(self) -> int:
        """Ranks on the fullest node."""
        return self.widest or math.ceil(self.ranks / self.nodes)


@dataclass(frozen=True)
class Point:
    """One measurement: the time of a step at a place, in milliseconds."""

    place: Place
    step_ms: float
    exposed_ms: float | None = None  # communication that nothing hides
    parameters: float | None = None
    step_bytes: float | None = None  # what one rank shares in a step
    loader_ms: float | None = None  # the part of the step that waits for data
    epoch_samples: float | None = None  # of one pass over the training data
    micro_batches: int | None = None  # of a batch, if ranks are stages of a pipeline

    @property
    def gradient_bytes(self) -> float | None:
        """Bytes shared in a step, as told, else four for each parameter."""
        if self.step_bytes is not None:
            return self.step_bytes
        return None if self.parameters is None else 4 * self.parameters

    @property
    def waits_for_data(self) -> bool:
        """Whether the loader is a limit of this step."""
        return self.loader_ms is not None and self.loader_ms >= WAITS * self.step_ms


def ranks_of(count: int) -> str:
    """So many ranks, as one says it."""
    return f"{count} rank{'' if count == 1 else 's'}"


def middles(points: Sequence[Point]) -> list[Point]:
    """One point for each place in the order of the first ones, with the median step of its own."""
    steps: dict[Place, list[float]] = {}
    for point in points:
        steps.setdefault(point.place, []).append(point.step_ms)
    firsts = {point.place: point for point in reversed(points)}
    return [replace(firsts[place], step_ms=median(own)) for place, own in steps.items()]


def shared_bytes(points: Sequence[Point]) -> float | None:
    """What one rank shares in a step; rather as several ranks measured it than as one process has it."""
    known = sorted((point for point in points if point.gradient_bytes), key=lambda one: one.place.ranks == 1)
    return known[0].gradient_bytes if known else None


@dataclass
class Measured:
    """One strategy: its points, those of one process among them, and the peak of each place in bytes.

    Attributes:
        servers: Of parameters, where it is known how many there are.
        ages: Of gradients when a server takes them, in updates made since their parameters were fetched: the
            median and the most by place. Of asynchronous training alone.
        supply: Of samples on one node, where making an item was timed.
    """

    points: list[Point] = field(default_factory=list)
    peaks: dict[Place, int] = field(default_factory=dict)
    servers: int | None = None
    ages: dict[Place, tuple[float, int]] = field(default_factory=dict)
    supply: Supply | None = None
