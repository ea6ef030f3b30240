"""Observations of a running program: the steps, phases and host facts that one or several of them give."""

import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from advisor.profiles.facts.observed import StepSeries
from advisor.profiles.facts.profile import StepPhases
from advisor.stages.baseline import phases_of

OUTLIER = 3.0  # robust sigma


def series_of(watched: Mapping[str, Any]) -> StepSeries | None:
    """Distribution of the clean steps of an observation; of all where none is clean."""
    flags = watched["flags"]
    clean = [value / 1e6 for place, value in enumerate(watched["wall_ns"]) if str(place) not in flags]
    values = sorted(clean or [value / 1e6 for value in watched["wall_ns"]])
    if not values:
        return None
    median = statistics.median(values)
    spread = 1.4826 * statistics.median([abs(value - median) for value in values])
    limit = median + OUTLIER * max(spread, 0.01 * median)
    counts = Counter(flag for each in flags.values() for flag in each)
    return StepSeries(
        steps=len(values),
        median_ms=median,
        mean_ms=statistics.fmean(values),
        p5_ms=values[int(0.05 * (len(values) - 1))],
        p95_ms=values[int(0.95 * (len(values) - 1))],
        outliers=sum(value > limit for value in values),
        flagged=tuple(sorted(counts.items())),
    )


def joined_observations(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Several observations one after another as one."""
    whole: dict[str, Any] = {"wall_ns": [], "cpu_ns": 0, "input_ns": [], "flags": {}, "seconds": 0.0}
    phases: Counter[str] = Counter()
    for message in messages:
        offset = len(whole["wall_ns"])
        for name in ("wall_ns", "input_ns"):
            whole[name] += message[name]
        whole["flags"].update({str(int(k) + offset): v for k, v in message["flags"].items()})
        whole["seconds"] += message["seconds"]
        whole["cpu_ns"] += message["cpu_ns"]
        if not message["all_flagged"]:
            phases.update(message["phases_ns"])
    whole["all_flagged"] = all(message["all_flagged"] for message in messages)
    if whole["all_flagged"]:
        for message in messages:
            phases.update(message["phases_ns"])
    whole["phases_ns"] = dict(phases)
    whole["other_cpus"] = sum(m["other_cpus"] * m["seconds"] for m in messages) / max(whole["seconds"], 1e-9)
    whole["throttled"] = [messages[0]["throttled"][0], messages[-1]["throttled"][1]]
    return whole


def phases_of_watched(watched: Mapping[str, Any]) -> StepPhases:
    """Mean parts of the clean steps of an observation; of all where none is clean."""
    flags = {} if watched["all_flagged"] else watched["flags"]
    wall = [value for place, value in enumerate(watched["wall_ns"]) if str(place) not in flags]
    phases = phases_of({"wall_ns": wall, "phases_ns": watched["phases_ns"]})
    return replace(phases, all_flagged=watched["all_flagged"])


def phases_of_recorded(recorded: Mapping[str, Any]) -> StepPhases:
    """Mean parts of the clean steps of a recorded window; of all where none is clean."""
    steps = list(zip(recorded["wall_ns"], recorded["phases_ns"], recorded["flags"], strict=True))
    steps = [each for each in steps if not each[2]] or steps
    phases: Counter[str] = Counter()
    for _, parts, _ in steps:
        phases.update(parts)
    return phases_of({"wall_ns": [wall for wall, _, _ in steps], "phases_ns": phases})


def host_of(watched: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of ``HostFacts`` that an observation gives."""
    busy = sum(watched["wall_ns"]) - sum(watched["input_ns"])
    (periods, hit), (periods_after, hit_after) = watched["throttled"]
    return {
        "cpu_per_wall": watched["cpu_ns"] / busy if busy > 0 else None,
        "other_cpus": watched["other_cpus"],
        "throttled_share": (hit_after - hit) / (periods_after - periods) if periods_after > periods else None,
    }
