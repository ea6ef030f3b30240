"""``advisor.plan``: predictions in Python, from points, a points file, or results of tuning."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from advisor.base.errors import ArgumentError, UsageError
from advisor.planning.convergence import read_convergence
from advisor.planning.goal import Goal, present_batch, samples_of
from advisor.planning.goodput_batch import goodput_places
from advisor.planning.memory import Memory
from advisor.planning.network import network_of
from advisor.planning.places import Measured, Place, Point
from advisor.planning.plan import Plan, make_plan, places
from advisor.planning.points_file import read_points
from advisor.planning.predicting import Interval
from advisor.planning.result_memory import memory_of
from advisor.planning.result_points import measured_strategies, noise_of
from advisor.planning.scheme import AS_MEASURED, chosen
from advisor.result.document import ResultData

NO_NOISE = "nothing is known of the gradient noise scale"
NOISE_HINT = "`--noise-scale SAMPLES`, or a result of `advisor tune` that searched for a larger batch"


def plan(
    points: str | os.PathLike[str] | Sequence[Point] | Sequence[ResultData],
    ranks: Sequence[int] | None = None,
    *,
    at: Sequence[Place] | None = None,
    strategy: str | None = None,
    gpus_per_node: int | None = None,
    network: str = "measured",
    gpu: str | None = None,
    batch: Literal["keep-local", "keep-global", "goodput"] = "keep-local",
    price: float | None = None,
    samples: float | None = None,
    epochs: float | None = None,
    noise_scale: float | None = None,
    convergence: str | os.PathLike[str] | None = None,
    failures: float | None = None,
    far: bool = False,
) -> Plan:
    """Predict the time of a step at other numbers of ranks.

    Args:
        points: A points file, measurements, or results of tuning one program.
        ranks: Counts to predict; by default those that were measured.
        at: Places in place of counts.
        strategy: Of results the one that is planned; by default the one measured at most counts. Of points
            how their ranks trained, which chooses the laws by which communication grows.
        gpus_per_node: Ranks that fit on a node; as measured, else 8.
        network: ``8x400Gb``, ``ib``, or a file of bus bandwidths.
        gpu: Whose memory counts in place of the machine's; of results alone.
        batch: What stays when the count changes, the batch of a rank or of all; or the one with most goodput.
        price: Of one rank for an hour; needs ``samples`` or ``epochs``.
        samples: To be seen in all, for hours and price.
        epochs: The same in passes over the training data, where the points tell how long one is.
        noise_scale: Gradient noise scale in samples; as the results measured it where it is left out.
        convergence: File of the samples that a target needs at several global batches, in place of
            ``noise_scale``, and of ``samples`` where these are left out.
        failures: GPU-hours between two unexpected stops; needs ``samples`` or ``epochs``.
        far: Predict beyond 64 times the most ranks measured.

    Raises:
        UsageError: The file, or what is asked for, cannot be meant.
        ArgumentError: There is no measurement.
    """
    found, results = _measured(points)
    if not any(one.points for one in found.values()):
        raise ArgumentError("a plan needs at least one measured point")
    found = chosen(found, strategy)
    memory: Memory | None = memory_of(results, found, gpu) if results else None
    if gpu is not None and memory is None:
        raise UsageError("nothing was measured of memory", hint="`gpu` is for a result with a profile")
    name = max(found, key=lambda each: len({point.place.ranks for point in found[each].points}))
    measured = found[name].points
    if epochs is not None:
        if samples is not None:
            raise ArgumentError("samples and epochs are given together", hint="one or the other")
        samples = samples_of(epochs, measured)
    noise = noise_of(results) if noise_scale is None else Interval(noise_scale, noise_scale, noise_scale)
    curve = None if convergence is None else read_convergence(Path(convergence))
    if curve is not None:
        if noise_scale is not None:
            raise ArgumentError("noise_scale and convergence are given together", hint="one or the other")
        noise = curve.noise
        samples = samples or curve.samples(present_batch(measured))
    tag: Literal["measured", "named"] = "measured" if noise_scale is None and curve is None else "named"
    noise = noise if samples or batch == "goodput" else None
    goal = Goal(samples, price, noise, failures, tag, epochs, curve)
    if at is None:
        counts = ranks if ranks is not None else sorted({point.place.ranks for point in measured})
        if batch == "goodput":
            if noise is None:
                raise UsageError(NO_NOISE, hint=NOISE_HINT)
            at = goodput_places([measured], counts, gpus_per_node, goal)
        else:
            at = places(measured, counts, gpus_per_node, batch)
    return make_plan(
        measured, at, network=network_of(network), goal=goal, far=far, strategy=name, memory=memory,
        servers=found[name].servers, ages=found[name].ages, supply=found[name].supply,
    )  # fmt: skip


def _measured(
    points: str | os.PathLike[str] | Sequence[Point] | Sequence[ResultData],
) -> tuple[dict[str, Measured], list[ResultData]]:
    if isinstance(points, str | os.PathLike):
        return {AS_MEASURED: Measured(read_points(Path(points)))}, []
    results = [each for each in points if isinstance(each, ResultData)]
    if not results:
        return {AS_MEASURED: Measured([each for each in points if isinstance(each, Point)])}, []
    if len(results) < len(points):
        raise ArgumentError("points and results are given together", hint="one or the other")
    return measured_strategies(results), results
