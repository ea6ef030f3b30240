"""What each rank's own hooks saw, joined to what its trace says of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from advisor.profiles.facts.observed import RankFacts
from advisor.profiles.facts.profile import Profile


def with_facts(
    ranks: Sequence[RankFacts] | None, profile: Profile, told: Sequence[Mapping[str, Any]]
) -> tuple[RankFacts, ...] | None:
    """Facts of ranks with their memory, and how much of the parameters they exchange per update.

    Args:
        ranks: From traces.
        profile: Of the first rank.
        told: Every rank's own profile as JSON, in order of ranks; may be empty.
    """
    if ranks is None:
        return None
    parameters = sum(root.parameter_bytes for root in profile.roots)
    by_rank = dict(enumerate(told))
    return tuple(
        replace(
            rank,
            parameters_reduced=rank.communication_bytes / parameters
            if rank.communication_bytes is not None and parameters
            else None,
            **_memory(by_rank.get(rank.rank), profile),
        )
        for rank in ranks
    )


def _memory(told: Mapping[str, Any] | None, profile: Profile) -> dict[str, Any]:
    memory = None if told is None else told.get("memory")
    if not memory:
        return {}
    on_device = memory.get("device_peak_bytes")
    peak = int(on_device or memory["host_peak_bytes"])
    machine = profile.machine
    whole = machine.gpus[0].memory_bytes if on_device and machine.gpus else machine.memory_bytes
    return {"memory_bytes": peak, "memory_share": peak / whole if whole else None}
