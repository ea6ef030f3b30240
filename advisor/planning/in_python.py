"""``advisor.plan``: predictions in Python, from a points file or from measurements."""

import os
from collections.abc import Sequence
from pathlib import Path

from advisor.base.errors import ArgumentError
from advisor.planning.goal import Goal
from advisor.planning.network import bytes_per_s
from advisor.planning.places import Place, Point
from advisor.planning.plan import Batch, Plan, make_plan, places
from advisor.planning.points_file import read_points


def plan(
    points: str | os.PathLike[str] | Sequence[Point],
    ranks: Sequence[int] | None = None,
    *,
    at: Sequence[Place] | None = None,
    gpus_per_node: int | None = None,
    network: str = "measured",
    batch: Batch = "keep-local",
    price: float | None = None,
    samples: float | None = None,
    far: bool = False,
) -> Plan:
    """Predict the time of a step at other numbers of ranks.

    Args:
        points: A points file, or measurements.
        ranks: Counts to predict; by default those that were measured.
        at: Places in place of counts.
        gpus_per_node: Ranks that fit on a node; as measured, else 8.
        network: Cards of a node, as in ``8x400Gb``.
        batch: What stays when the count changes, the batch of a rank or of all.
        price: Of one rank for an hour; needs ``samples``.
        samples: To be seen in all, for hours and price.
        far: Predict beyond 64 times the most ranks measured.

    Raises:
        UsageError: The file, or what is asked for, cannot be meant.
        ArgumentError: There is no measurement.
    """
    measured = read_points(Path(points)) if isinstance(points, str | os.PathLike) else list(points)
    if not measured:
        raise ArgumentError("a plan needs at least one measured point")
    if at is None:
        counts = ranks if ranks is not None else sorted({point.place.ranks for point in measured})
        at = places(measured, counts, gpus_per_node, batch)
    speed = bytes_per_s(network)
    return make_plan(measured, at, network=speed, goal=Goal(samples, price), far=far)
