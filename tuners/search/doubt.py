"""What the noise of a look may hide, by how its configurations were compared."""

from advisor.tuners.comparing.measure import moderated
from advisor.tuners.search.race import SCREEN_LEVEL

NEAR = 0.05  # log ratio that looks within one process may miss: two instances in it differ as much


def doubt(pairs: int) -> float:
    """Log ratio below which a difference may be noise.

    Args:
        pairs: Of processes that were compared, which differ by themselves (``measure.moderated``); 0 for a
            look within one process.
    """
    if pairs == 0:
        return NEAR
    found = moderated([[0.0]] * pairs, SCREEN_LEVEL)
    return max(NEAR, found.high - found.estimate)


def together(before: tuple[float, int], now: tuple[float, int]) -> float:
    """Log ratio by two looks at the same configurations, each given with its number of pairs."""
    weights = [max(1, pairs) for _, pairs in (before, now)]
    return (before[0] * weights[0] + now[0] * weights[1]) / sum(weights)
