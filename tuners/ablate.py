"""The smallest set of changes: each one is taken out of the winner, and put back only if that costs.

Contributions are measured by removal, not by adding up single gains, which interact.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from advisor.tuners.duel import Arena
from advisor.tuners.failures import TrialFailed
from advisor.tuners.knob import Value
from advisor.tuners.measure import Estimate, within

INSTANCES = 2  # per change, roles swapped
QUADS = 4


@dataclass(frozen=True)
class Removal:
    """What the winner loses without one change: log ratio of the winner over the winner without it."""

    knob: str
    contribution: Estimate
    needed: bool


def without(winner: Mapping[str, Value], base: Mapping[str, Value], knob: str) -> dict[str, Value]:
    """The winner with one knob back at the baseline's value, and what depends on it too."""
    config = {**winner, knob: base[knob]}
    if knob == "num_workers" and config.get("num_workers") == 0:
        config.update(
            {name: base[name] for name in ("prefetch_factor", "persistent_workers") if name in base}
        )
    if knob == "batch_size" and "lr_scaling" in base:
        config["lr_scaling"] = base["lr_scaling"]
    return config


def contribution(
    arena: Arena,
    winner: Mapping[str, Value],
    base: Mapping[str, Value],
    knob: str,
    *,
    level: float,
    number: int,
    deadline: float,
    instances: int = INSTANCES,
) -> Estimate:
    """How much faster the winner is than the winner without ``knob``."""
    reduced = without(winner, base, knob)
    how = arena.how(reduced, winner, fresh=True)
    ratios: list[float] = []
    for index in range(instances):
        duel = arena.duel(
            reduced, winner, how=how, quads=QUADS, swapped=index % 2 == 1, number=number, deadline=deadline
        )
        ratios += duel.log_ratios
    return replace(within(ratios, level), instances=instances)


def removals(
    arena: Arena,
    winner: Mapping[str, Value],
    base: Mapping[str, Value],
    *,
    detectable: float,
    level: float,
    first_number: int,
    deadline: float,
) -> tuple[dict[str, Value], list[Removal]]:
    """Reduce a winner to the changes whose removal costs more than ``detectable`` (log ratio).

    A change whose removal cannot be measured (the program fails without it) is kept.
    """
    config = dict(winner)
    kept: list[Removal] = []
    changed = [name for name in config if config[name] != base[name]]
    dependent = {"lr_scaling"} if "batch_size" in changed else set()
    candidates = [name for name in changed if name not in dependent]
    if len(candidates) == 1:
        return config, []
    for index, name in enumerate(candidates):
        if config[name] == base[name]:
            continue  # went with another change
        try:
            estimate = contribution(
                arena, config, base, name, level=level, number=first_number + index, deadline=deadline
            )
        except TrialFailed:
            continue
        needed = estimate.estimate > detectable
        if not needed:
            config = without(config, base, name)
        kept.append(Removal(name, estimate, needed))
    return config, kept
