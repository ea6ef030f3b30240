"""What several ranks answered, as the one answer of their trial."""

import dataclasses
import math
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from advisor.profiles.facts.machine import read_machine
from advisor.tuners.trial.messages import Facts, RankSteps, SlotMeasured, TrialOutcome

Losses = Literal["mean", "first", "last"]

SAME_NORM = 1e-3  # relative, of gradients that were averaged over all ranks


def merged(messages: Sequence[SlotMeasured], splits_batch: bool, hosts: Sequence[str] = ()) -> SlotMeasured:
    """One message of a slot from those of all workers.

    A step lasts as long as the workers together need for one step each: the harmonic mean of theirs, which
    is every one's own where they wait for each other. Samples and CPU time add up; other load is what none
    of them caused, on the machine with most of it. Steps that one worker sets apart are set apart for all.

    Args:
        messages: One of each.
        splits_batch: Each has its own samples.
        hosts: The machine of each; all on one by default.
    """
    first = messages[0]
    if len(messages) == 1:
        return first
    count = min(len(message.wall_ns) for message in messages)
    steps = zip(*(message.wall_ns[:count] for message in messages), strict=True)
    machines: dict[str, list[SlotMeasured]] = {}
    for message, host in zip(messages, hosts or [""] * len(messages), strict=True):
        machines.setdefault(host, []).append(message)
    if splits_batch:
        first = replace(
            first,
            loader_samples=sum(message.loader_samples for message in messages),
            root_samples=sum(message.root_samples for message in messages),
        )
    return replace(
        first,
        wall_ns=tuple(round(len(step) / sum(1 / max(1, wall) for wall in step)) for step in steps),
        cpu_ns=sum(message.cpu_ns for message in messages),
        own_cpu_s=sum(message.own_cpu_s for message in messages),
        other_cpu_s=max(map(_other_cpu_s, machines.values())),
        throttled_s=max(message.throttled_s for message in messages),
        refused=_first_words(message.refused for message in messages),
        ranks=tuple(RankSteps(sum(message.wall_ns), message.phases_ns) for message in messages),
    )


def together(outcomes: Sequence[TrialOutcome], losses: Losses) -> TrialOutcome:
    """One outcome from those of all workers."""
    first = outcomes[0]
    if len(outcomes) == 1:
        return first
    whole = first.losses
    if losses == "last":
        whole = outcomes[-1].losses
    elif losses == "mean":
        columns = zip(*(outcome.losses for outcome in outcomes), strict=False)
        whole = tuple(math.fsum(column) / len(outcomes) for column in columns)
    devices = [each.device_peak_bytes for each in outcomes if each.device_peak_bytes is not None]
    return replace(
        first,
        losses=whole,
        # else each rank has gradients of its own: parts of the model, or of the batch
        grad_norms=first.grad_norms if _agree([outcome.grad_norms for outcome in outcomes]) else (),
        peak_bytes=sum(outcome.peak_bytes for outcome in outcomes),
        device_peak_bytes=max(devices, default=None),
        files=_all_of(outcome.files for outcome in outcomes),
        connections=_all_of(outcome.connections for outcome in outcomes),
        processes=_all_of(outcome.processes for outcome in outcomes),
        refused=_first_words(outcome.refused for outcome in outcomes),
        failure=next((outcome.failure for outcome in outcomes if outcome.failure is not None), None),
        ranks=tuple(outcome.report for outcome in outcomes),
    )


def _other_cpu_s(messages: Sequence[SlotMeasured]) -> float:
    """Of one machine: what none of its workers caused."""
    everyone = min(message.other_cpu_s + message.own_cpu_s for message in messages)
    return max(0.0, everyone - sum(message.own_cpu_s for message in messages))


def _first_words(refused: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """What any worker refused, in the words of the first one that did."""
    return dict(ChainMap(*map(dict, refused)))


def _all_of(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(sorted({item for each in lists for item in each}))


def on_whole_machine(facts: Facts) -> Facts:
    """With what a rank that is bound to its own cores cannot see."""
    seen = read_machine()
    machine = dataclasses.replace(
        facts.profile.machine, cpus_allowed=seen.cpus_allowed, numa_nodes=seen.numa_nodes
    )
    return replace(facts, profile=dataclasses.replace(facts.profile, machine=machine))


def _agree(norms: Sequence[Sequence[float]]) -> bool:
    return all(
        math.isclose(first, other, rel_tol=SAME_NORM)
        for mine in norms[1:]
        for first, other in zip(norms[0], mine, strict=False)
    )
