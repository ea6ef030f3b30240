"""Where pairs of a confirmation were measured, and in which wave."""

from collections.abc import Sequence
from typing import NamedTuple


class Where(NamedTuple):
    """Where a pair was measured: its node, and at how many pairs the wave ends that it was measured in."""

    node: str = ""
    wave: int = 0


def within_wave(where: Sequence[Where], stop: int) -> bool:
    """Whether a look at so many pairs would see a part of a wave only."""
    return any(each.wave > stop for each in where[:stop])


def nodes_of(where: Sequence[Where], stop: int) -> list[str]:
    """The nodes of so many pairs; empty where there was no other node than this one.

    Pairs of which nothing is known lie on this one.
    """
    known = where[:stop]
    if not any(each.wave for each in known):
        return []
    return [each.node for each in known] + [""] * (stop - len(known))
