"""What stored results say about counts of ranks: points by strategy, with the memory that was seen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.base.errors import UsageError
from advisor.planning.effects.loading import Supply
from advisor.planning.places import Measured, Place, Point
from advisor.planning.predicting import Interval as Noise
from advisor.result.document import Interval, ProfileData, Rate, ResultData, Trial, Value

SINGLE = "single"
SERVED = "parameter_server"
SAME_BATCH = 0.1  # samples of a step nearer than this to those of one process are as many
ABOUT_RANKS = frozenset({"strategy", "ranks", "servers", "staleness"})


def measured_strategies(results: Sequence[ResultData | ProfileData]) -> dict[str, Measured]:
    """Every strategy that was measured with nothing else changed; ``single`` alone where none was.

    All ranks of a result ran on one node. A local batch is what a rank's share of the throughput says.
    A peak is that of a rank: on the host trials tell the sum of their ranks, of which each gets a part.

    Raises:
        UsageError: A result is of a profile alone, or they are of several programs.
    """
    if len({result.target.digest for result in results}) > 1:
        raise UsageError("the results are of different programs", hint="`advisor plan` takes counts of one")
    alone = Measured()
    found: dict[str, Measured] = {}
    for result in results:
        if not isinstance(result, ResultData):
            raise UsageError(
                "a profile has no measured step to plan from", hint="the result of `advisor tune`"
            )
        baseline = result.baseline
        present = _strategy(baseline.config)
        on_device = "device_peak" in result.profile.memory_bytes
        own = alone if present == SINGLE else found.setdefault(present, _empty(baseline.config))
        alone_bytes = baseline.steps_peak_bytes or baseline.peak_bytes
        alone.supply = alone.supply or _supply(result)
        waits = result.profile.phases_ms.get("input_wait")
        samples = _samples(baseline.step_ms, baseline.throughput)
        _add(
            own, _count(baseline.config), samples, baseline.step_ms, alone_bytes,
            _Shared(
                result.profile.memory_bytes.get("gradient") if present == SINGLE else None, loader_ms=waits,
                parameters=result.profile.parameters, epoch_samples=result.profile.epoch_samples,
            ),
        )  # fmt: skip
        for trial in result.trials:
            if not _counts(trial, baseline.config) or trial.step_ms is None or trial.throughput is None:
                continue
            count = _count(trial.config) if trial.ranks is None else trial.ranks.count
            strategy = found.setdefault(_strategy(trial.config), _empty(trial.config))
            peak = trial.peak_bytes if on_device or not trial.peak_bytes else trial.peak_bytes // count
            own_samples = _samples(trial.step_ms, trial.throughput)
            if abs(own_samples - samples) < SAME_BATCH * samples:
                own_samples = samples
            _add(strategy, count, own_samples, trial.step_ms, peak, _shared(trial, count))
            if (ages := _ages(trial)) is not None:
                strategy.ages[strategy.points[-1].place] = ages
    for one in found.values():
        one.points[:0] = alone.points
        one.peaks |= alone.peaks
        one.supply = alone.supply
    return found or {SINGLE: alone}


def _counts(trial: Trial, baseline: Mapping[str, Value]) -> bool:
    """Measured under a strategy on several ranks, with nothing else changed."""
    same = all(trial.config.get(key) == value for key, value in baseline.items() if key not in ABOUT_RANKS)
    several = _strategy(trial.config) != SINGLE
    return same and several and trial.state == "complete" and not ABOUT_RANKS & trial.refused.keys()


@dataclass(frozen=True)
class _Shared:
    """What a result says of a step beside its time."""

    step_bytes: float | None = None
    exposed_ms: float | None = None
    loader_ms: float | None = None
    parameters: int | None = None
    epoch_samples: int | None = None
    micro_batches: int | None = None


def _shared(trial: Trial, count: int) -> _Shared:
    """What ranks exchanged. A rank of a ring sends 2(n-1)/n of what is shared."""
    if trial.ranks is None or count < 2:
        return _Shared()
    sent = trial.ranks.bytes_per_step
    exposed = trial.ranks.report.get("exposed_communication_ms")
    parts = trial.ranks.report.get("micro_batches")
    return _Shared(
        None if sent is None else sent * count / (2 * (count - 1)),
        float(exposed) if isinstance(exposed, int | float) and math.isfinite(exposed) else None,
        micro_batches=parts if isinstance(parts, int) and parts > 0 else None,
    )


def _supply(result: ResultData) -> Supply | None:
    """What one of its samples takes of CPUs and storage; ``None`` where no item was timed."""
    profile, cpus = result.profile, result.machine.get("cpus_allowed")
    if profile.item_cpu_ms is None or not isinstance(cpus, int) or cpus < 1:
        return None
    return Supply(
        profile.item_cpu_ms / 1e3,
        cpus,
        profile.item_read_bytes or 0,
        profile.rates.get("storage_read") or math.inf,
    )


def _samples(step: Interval, rate: Rate) -> float:
    """Of all ranks in a step: whole, and as times and rates are medians of their own, about what they say."""
    samples = rate.estimate * step.estimate / 1e3
    return float(round(samples)) if samples >= 1 else float(f"{samples:.3g}")


def _add(
    to: Measured, count: int, samples: float, step: Interval, peak: int | None, shared: _Shared
) -> None:  # fmt: skip
    if step.estimate <= 0 or samples <= 0:
        return
    place = Place(count, 1, samples / count)
    exposed, loader = shared.exposed_ms, shared.loader_ms
    to.points.append(
        Point(
            place,
            step.estimate,
            None if exposed is None else min(exposed, step.estimate),
            parameters=shared.parameters,
            step_bytes=shared.step_bytes,
            epoch_samples=shared.epoch_samples,
            micro_batches=shared.micro_batches,
            loader_ms=None if loader is None else min(loader, step.estimate),
        )
    )
    if peak:
        to.peaks[place] = max(peak, to.peaks.get(place, 0))


def _strategy(config: Mapping[str, Value]) -> str:
    """Its name; several servers, and those that do not wait for all workers, are strategies of their own."""
    name = str(config.get("strategy", SINGLE))
    if name != SERVED:
        return name
    if str(config.get("staleness", "0")) != "0":
        name = f"async_{name}"
    return name if _servers(config) == 1 else f"{name}, {_servers(config)} servers"


def _empty(config: Mapping[str, Value]) -> Measured:
    return Measured(servers=_servers(config))


def _servers(config: Mapping[str, Value]) -> int:
    count = config.get("servers", 1)
    return count if isinstance(count, int) and count > 0 else 1


def _ages(trial: Trial) -> tuple[float, int] | None:
    """How many updates old gradients were: the median and the most; ``None`` where none could be."""
    report = {} if trial.ranks is None else trial.ranks.report
    middle, most = report.get("staleness_median"), report.get("staleness_largest")
    waits = not _strategy(trial.config).startswith("async_")
    if waits or not isinstance(middle, int | float) or not isinstance(most, int):
        return None
    return float(middle), most


def _count(config: Mapping[str, Value]) -> int:
    count = config.get("ranks", 1)
    return count if isinstance(count, int) and _strategy(config) != SINGLE else 1


def noise_of(results: Sequence[ResultData | ProfileData]) -> Noise | None:
    """The gradient noise scale in samples that a result measured, with its interval."""
    for result in results:
        known = result.batch if isinstance(result, ResultData) else None
        scale = None if known is None else known.noise_scale
        if scale is not None and scale.low > 0:
            return Noise(scale.estimate, scale.low, scale.high)
    return None
