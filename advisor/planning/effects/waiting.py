"""A step ends when the slowest rank does."""

import math


def light_tailed_s(sigma_s: float, ranks: int) -> float:
    """The expected lead of the slowest over the mean: ``sigma sqrt(2 ln N)``, for nearly normal times."""
    return sigma_s * math.sqrt(2 * math.log(ranks))


def heavy_tailed_s(scale_s: float, ranks: int) -> float:
    """The same on shared clouds, where times have exponential tails: ``c ln N``."""
    return scale_s * math.log(ranks)
