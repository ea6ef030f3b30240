"""What the user's own step costs with one thing left out, measured in interleaved blocks (rules.md, 4)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """A share of the step (0 to 1) with the bounds of its 95 % interval; negative ones are 0."""

    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Replays:
    """Shares of the step that go when one thing is left out; ``None`` where a replay was impossible.

    ``loader_free`` is R1 (one cached batch), ``forward_only`` R2, ``optimizer_off`` R3 and
    ``communication_off`` R4. ``debug_off`` is a step without anomaly detection, ``evaluation_without_graph``
    the share of an evaluation's forward that goes without recording a graph. ``double_batch`` and
    ``half_batch`` are the time of a cached batch of that size over one of the present size. ``refused`` says
    why, by name.
    """

    loader_free: Share | None = None
    forward_only: Share | None = None
    optimizer_off: Share | None = None
    communication_off: Share | None = None
    debug_off: Share | None = None
    evaluation_without_graph: Share | None = None
    double_batch: Share | None = None
    half_batch: Share | None = None
    refused: tuple[tuple[str, str], ...] = ()
