"""What each rank's own hooks saw, joined to what its trace says of it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from advisor.profiles.facts.observed import RankFacts
from advisor.profiles.facts.profile import Profile


def with_facts(
    ranks: Sequence[RankFacts] | None, profile: Profile, told: Sequence[Profile]
) -> tuple[RankFacts, ...] | None:
    """Facts of ranks with their memory, and how much of the parameters they exchange per update.

    Args:
        ranks: From traces.
        profile: Of the first rank.
        told: Every rank's own profile, in order of ranks; may be empty.
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


def _memory(told: Profile | None, profile: Profile) -> dict[str, Any]:
    if told is None or told.memory is None:
        return {}
    peak, machine = told.peak_bytes, profile.machine
    on_device = told.memory.device_peak_bytes
    whole = machine.gpus[0].memory_bytes if on_device and machine.gpus else machine.memory_bytes
    return {"memory_bytes": peak, "memory_share": peak / whole if whole else None}
