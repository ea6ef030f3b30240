"""The parameters that fit measurements best, given normal priors: damped Gauss-Newton steps."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

HUBER = 2.0  # standard deviations from which on a residual counts linearly
ITERATIONS = 40


class Descent:
    """Maximum a posteriori with Huber's weights.

    Args:
        residuals: Of parameters, each over its standard deviation.
        mean: Of the priors.
        sd: Of the priors.
    """

    def __init__(self, residuals: Callable[[Vector], Vector], mean: Vector, sd: Vector) -> None:
        self._residuals, self._mean, self._sd = residuals, mean, sd

    def best(self, starts: Sequence[Vector]) -> Vector:
        """The cheapest end of the ways down from several starts."""
        return min((self._descend(start) for start in starts), key=self._cost)

    def _cost(self, p: Vector) -> float:
        r = np.abs(self._residuals(p))
        robust = np.where(r <= HUBER, r**2, 2 * HUBER * r - HUBER**2)
        return float(robust.sum() + (((p - self._mean) / self._sd) ** 2).sum())

    def _descend(self, start: Vector) -> Vector:
        p, damping = start.copy(), 1e-2
        now = self._cost(p)
        for _ in range(ITERATIONS):
            r = self._residuals(p)
            jacobian = np.empty((len(r), len(p)))
            for k in range(len(p)):
                step = np.zeros_like(p)
                step[k] = 1e-5
                jacobian[:, k] = (self._residuals(p + step) - r) / 1e-5
            weight = np.minimum(1.0, HUBER / np.maximum(np.abs(r), 1e-12))
            gradient = jacobian.T @ (weight * r) + (p - self._mean) / self._sd**2
            curve = jacobian.T @ (weight[:, None] * jacobian) + np.diag(1 / self._sd**2)
            before = now
            while damping < 1e8:
                tried = p - np.linalg.solve(curve + damping * np.diag(np.diag(curve)), gradient)
                new = self._cost(tried)
                if new < now:
                    p, now, damping = tried, new, damping / 5
                    break
                damping *= 5
            if before - now < 1e-6 * (1 + before):
                break
        return p
