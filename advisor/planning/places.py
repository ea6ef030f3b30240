"""Where and with which batch a program ran, or would run."""

import math
from dataclasses import dataclass, field


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

    @property
    def gradient_bytes(self) -> float | None:
        """Bytes shared in a step, as told, else four for each parameter."""
        if self.step_bytes is not None:
            return self.step_bytes
        return None if self.parameters is None else 4 * self.parameters


@dataclass
class Measured:
    """One strategy: its points, those of one process among them, and the peak of each place in bytes."""

    points: list[Point] = field(default_factory=list)
    peaks: dict[Place, int] = field(default_factory=dict)
