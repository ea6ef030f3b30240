"""Observations of a running program: the steps, phases and host facts that one or several of them give."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import msgspec

from advisor.profiles.derived.step_phases import phases_of
from advisor.profiles.facts.observed import HotSpot, Location, MemoryUse, StepSeries
from advisor.profiles.facts.profile import LoaderFacts, Profile, StepPhases
from advisor.tuners.trial.look_messages import Observed, Recorded

OUTLIER = 3.0  # robust sigma
LOOP = ("forward", "backward", "optimizer", "other")  # parts of a step that the training loop calls
EPOCHS = (
    "epochs_started", "epoch_wall_s", "epoch_wait_ms", "worker_start_ms", "first_step_ms", "construct_ms",
    "constructed",
)  # fmt: skip
GROWTH = (
    "growth_steps", "growth_bytes", "growth_bytes_per_step", "growth_monotone", "swapped_in_bytes",
    "retained_graph_nodes_per_step", "retained_name", "retained_location", "major_faults_per_step",
    "minor_faults_per_step", "system_share",
)  # fmt: skip


def series_of(watched: Observed) -> StepSeries | None:
    """Distribution of the clean steps of an observation; of all where none is clean."""
    flags = watched.flags
    clean = [value / 1e6 for place, value in enumerate(watched.wall_ns) if place not in flags]
    counts = Counter(flag for each in flags.values() for flag in each)
    series = distribution(clean or [value / 1e6 for value in watched.wall_ns])
    return None if series is None else replace(series, flagged=tuple(sorted(counts.items())))


def distribution(steps_ms: Sequence[float]) -> StepSeries | None:
    """Of the times of some steps, ``None`` without one."""
    values = sorted(steps_ms)
    if not values:
        return None
    median = statistics.median(values)
    spread = 1.4826 * statistics.median([abs(value - median) for value in values])
    limit = median + OUTLIER * max(spread, 0.01 * median)
    return StepSeries(
        steps=len(values),
        median_ms=median,
        mean_ms=statistics.fmean(values),
        p5_ms=values[int(0.05 * (len(values) - 1))],
        p95_ms=values[int(0.95 * (len(values) - 1))],
        outliers=sum(value > limit for value in values),
    )


def joined_observations(messages: Sequence[Observed]) -> Observed:
    """Several observations one after another as one."""
    wall_ns: list[int] = []
    flags: dict[int, tuple[str, ...]] = {}
    phases: Counter[str] = Counter()
    all_flagged = all(message.all_flagged for message in messages)
    for message in messages:
        flags.update({place + len(wall_ns): names for place, names in message.flags.items()})
        wall_ns += message.wall_ns
        if all_flagged or not message.all_flagged:
            phases.update(message.phases_ns)
    seconds = sum(message.seconds for message in messages)
    told = [(each.other_cpus, each.seconds) for each in messages if each.other_cpus is not None]
    told_s = sum(spent for _, spent in told)
    return Observed(
        wall_ns=tuple(wall_ns),
        cpu_ns=sum(message.cpu_ns for message in messages),
        input_ns=tuple(chain.from_iterable(message.input_ns for message in messages)),
        flags=flags,
        phases_ns=dict(phases),
        all_flagged=all_flagged,
        seconds=seconds,
        other_cpus=sum(cpus * spent for cpus, spent in told) / told_s if told else None,
        throttled=(messages[0].throttled[0], messages[-1].throttled[1]),
        company=max(messages, key=lambda message: message.seconds).company,
    )


def after(earlier: Sequence[float], watched: Observed) -> Observed:
    """An observation with the times of clean steps before it, in seconds; its phases stay its own."""
    flags = {place + len(earlier): names for place, names in watched.flags.items()}
    wall_ns = (*(round(1e9 * spent) for spent in earlier), *watched.wall_ns)
    return msgspec.structs.replace(watched, wall_ns=wall_ns, flags=flags)


def phases_of_watched(watched: Observed) -> StepPhases:
    """Mean parts of the clean steps of an observation; of all where none is clean."""
    flags = {} if watched.all_flagged else watched.flags
    wall = [value for place, value in enumerate(watched.wall_ns) if place not in flags]
    return replace(phases_of(wall, watched.phases_ns), all_flagged=watched.all_flagged)


def phases_of_recorded(recorded: Recorded) -> StepPhases:
    """Mean parts of the clean steps of a recorded window; of all where none is clean."""
    steps = list(zip(recorded.wall_ns, recorded.phases_ns, recorded.flags, strict=True))
    steps = [each for each in steps if not each[2]] or steps
    phases: Counter[str] = Counter()
    for _, parts, _ in steps:
        phases.update(parts)
    return phases_of([wall for wall, _, _ in steps], phases)


def host_of(watched: Observed) -> dict[str, Any]:
    """Fields of ``HostFacts`` that an observation gives."""
    busy = sum(watched.wall_ns) - sum(watched.input_ns)
    (periods, hit), (periods_after, hit_after) = watched.throttled
    training = watched.company.get("training", ())
    return {
        "training_thread_cpus": training[0][1] if training else None,
        "threads": watched.company.get("threads", ()),
        "children": watched.company.get("children", ()),
        "cpu_per_wall": watched.cpu_ns / busy if busy > 0 else None,
        "other_cpus": watched.other_cpus,
        "throttled_share": (hit_after - hit) / (periods_after - periods) if periods_after > periods else None,
    }


def inspected(watched: Profile, seen: Profile) -> Profile:
    """What was seen by looking closely, with the times from when nothing but watching went on."""
    return replace(
        seen,
        phases=watched.phases,
        series=watched.series,
        host=watched.host,
        run=watched.run,
        watching=watched.watching,
        growth=watched.growth,
        memory=with_growth_of(watched, seen),
        loader=with_epochs_of(watched, seen),
    )


def with_growth_of(watched: Profile, inspected: Profile) -> MemoryUse | None:
    """Memory as inspected; what only watching tells as it was watched, should that process have ended."""
    before, after = watched.memory, inspected.memory
    if before is None or after is None or after.growth_steps:
        return after
    return replace(after, **{name: getattr(before, name) for name in GROWTH})


def with_epochs_of(watched: Profile, inspected: Profile) -> LoaderFacts | None:
    """The loader as inspected, with its epochs as they were while nothing but watching went on."""
    before, after = watched.loader, inspected.loader
    if before is None or after is None:
        return after
    kept = {name: getattr(before, name) for name in EPOCHS}
    slow = line_of_items(inspected.hotspots) if not after.num_workers else None  # else it only waits there
    return replace(after, **kept, slow_line=after.slow_line or slow)


def line_of_items(hotspots: Iterable[HotSpot]) -> Location | None:
    """The line that was met most while batches were made, beside the loop that asks for them.

    That is met while torch joins items, which runs no line of the program: it is known by what else it does.
    """
    training = {_function(spot) for spot in hotspots if spot.phase in LOOP and not spot.inner}
    waiting = [spot for spot in hotspots if spot.phase == "input_wait"]
    making = [spot for spot in waiting if _function(spot) not in training] or waiting
    return next((spot.location for spot in making), None)


def _function(spot: HotSpot) -> tuple[str, str]:
    return spot.location.file, spot.location.function


def unrecorded(profile: Profile) -> str | None:
    """Why no steps are recorded; ``None`` where they can be."""
    own = profile.run.own_profiler if profile.run is not None else None
    if own is None:
        return None
    return (
        f"no steps were recorded: the program uses torch.profiler itself, at {own}, and two at once end the "
        "process; leave it out to see operators"
    )
