"""What one change of a winner brings, by taking it out and by what the search saw of it alone."""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

from advisor.tuners.comparing.measure import Estimate


@dataclass(frozen=True)
class Removal:
    """What the winner loses without one change: log ratio of the winner over the winner without it.

    Of one that is needed it is by all that is known of it, as of ``by_all``.
    """

    knob: str
    contribution: Estimate
    needed: bool


def fewest_looks(seen: Estimate | None, detectable: float) -> int:
    """Looks that have to say that a change brings nothing.

    Two where it was clearly ``seen`` to bring more: one look of a few seconds is as easily wrong as that.
    """
    return 2 if seen is not None and seen.low > detectable else 1


def judged(
    knob: str,
    removal: Estimate,
    detectable: float,
    seen: Estimate | None = None,
    *,
    cut_off: bool = False,
    least: float = math.inf,
) -> Removal:
    """Whether a change stays: its removal costs more than ``detectable``, and by all that is known it gains.

    Args:
        knob: Its name.
        removal: Log ratio by taking it out.
        detectable: Least that counts.
        seen: As of ``by_all``.
        cut_off: As of ``by_all``.
        least: Log ratio that counts where the removal tells it by itself.
    """
    brings = by_all(removal, seen, cut_off=cut_off)
    needed = tells(removal, least) or (removal.estimate > detectable and brings.low > 0)
    return Removal(knob, brings if needed else removal, needed)


def tells(removal: Estimate, least: float) -> bool:
    """Whether a removal tells by itself that it costs, and more than ``least`` (log ratio)."""
    return removal.low > 0 and removal.estimate > least


def by_all(removal: Estimate, seen: Estimate | None = None, *, cut_off: bool = False) -> Estimate:
    """What a change brings by all that is known of it: what its removal tells, where that is clear by itself.

    Where it is not, and the search saw it alone and clearly, by both, weighted by their variances; what was
    seen counts for no more than the removal, as it was chosen for its gain.

    Args:
        removal: By taking it out.
        seen: What the search saw of it alone.
        cut_off: Time cut its removal off, so that what was clearly seen counts by itself.
    """
    if removal.low > 0 or seen is None or seen.low <= 0:
        return removal
    if cut_off:
        return seen
    half = (removal.high - removal.low) / 2
    by_level = _quantile(removal.level) / _quantile(seen.level)
    half_seen = max(half, by_level * (seen.high - seen.low) / 2)
    share = half_seen**2 / (half**2 + half_seen**2)
    both, half_of_both = share * removal.estimate + (1 - share) * seen.estimate, half * math.sqrt(share)
    return replace(
        removal,
        estimate=both,
        low=both - half_of_both,
        high=both + half_of_both,
        quads=removal.quads + seen.quads,
        instances=removal.instances + seen.instances,
    )


def _quantile(level: float) -> float:
    return NormalDist().inv_cdf(0.5 + level / 2)
