"""How long a count trains until the goal, and what that costs: samples, larger batches, failures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from advisor.base.errors import UsageError
from advisor.planning.convergence import Convergence
from advisor.planning.effects.failures import stretched
from advisor.planning.places import Place, Point
from advisor.planning.predicting import Interval

SAVE_S, RESTART_S = 60.0, 600.0  # assumed: of one save, and from a stop until training goes on


def samples_of(epochs: float, points: Sequence[Point]) -> float:
    """Samples of so many passes over the training data.

    Raises:
        UsageError: Nothing tells how many one has.
    """
    epoch = next((point.epoch_samples for point in points if point.epoch_samples), None)
    if epoch is None:
        raise UsageError(
            "nothing tells how many samples an epoch has",
            hint="a column epoch_samples in the points file, or samples in all: `--until 1e8`",
        )
    return epochs * epoch


def present_batch(points: Sequence[Point]) -> float:
    """Global batch of the fewest ranks measured, against which others are held."""
    first = min(points, key=lambda point: (point.place.ranks, point.place.nodes)).place
    return first.ranks * first.local_batch


@dataclass(frozen=True)
class Goal:
    """What is to be reached, at which price.

    Attributes:
        samples: To be seen in all with the global batch of the fewest ranks measured.
        price: Of one rank for an hour.
        noise: Gradient noise scale in samples, if more samples are to be counted for larger batches.
        noise_tag: Where that comes from.
        epochs: How many passes over the training data the samples are, if that was asked.
        convergence: Points that told the noise scale, if they did.
        hours_between_stops: GPU-hours between two unexpected stops, if failures are to be counted.
    """

    samples: float | None = None
    price: float | None = None
    noise: Interval | None = None
    hours_between_stops: float | None = None
    noise_tag: Literal["measured", "named"] = "named"
    epochs: float | None = None
    convergence: Convergence | None = None

    def needed(self, batch: float, present: float) -> Interval:
        """Samples that a global batch needs over those of the present one: ``(noise + B) / (noise + B0)``.

        McCandlish and others, 2018, equation 2.7. It is one where nothing is known of the noise scale.
        """
        if self.noise is None:
            return Interval(1.0, 1.0, 1.0)
        ends = [
            (noise + batch) / (noise + present)
            for noise in (self.noise.estimate, self.noise.low, self.noise.high)
        ]
        return Interval(ends[0], min(ends), max(ends))

    def hours(self, step_ms: Interval, place: Place, present: float) -> Interval | None:
        """Hours until the samples are seen; ``None`` without samples.

        Args:
            step_ms: Of the place.
            place: Where it runs.
            present: Global batch of the fewest ranks measured.
        """
        if self.samples is None:
            return None
        batch = place.ranks * place.local_batch
        needed = self.needed(batch, present)
        longer = 1.0
        if self.hours_between_stops is not None:
            longer = stretched(SAVE_S, RESTART_S, place.ranks, self.hours_between_stops)
        each = self.samples / batch / 3.6e6 * longer
        return Interval(
            each * step_ms.estimate * needed.estimate,
            each * step_ms.low * needed.low,
            each * step_ms.high * needed.high,
        )

    def cost(self, hours: Interval | None, ranks: int) -> Interval | None:
        """Price of all ranks for so many hours."""
        if hours is None or self.price is None:
            return None
        each = self.price * ranks
        return Interval(each * hours.estimate, each * hours.low, each * hours.high)

    @property
    def basis(self) -> tuple[tuple[str, Literal["measured", "named", "assumed"]], ...]:
        """What hours and price rest on, each with where it comes from."""
        told: list[tuple[str, Literal["measured", "named", "assumed"]]] = []
        if self.epochs is not None and self.samples is not None:
            told.append(
                (f"{self.epochs:g} epochs of {self.samples / self.epochs:,.0f} samples each", "measured")
            )
        if self.convergence is not None:
            told.append(
                (
                    f"samples to the target at batches up to {self.convergence.largest:,.0f}, by convergence "
                    "points; larger ones go on along the same curve",
                    "named",
                )
            )
        if self.noise is not None:
            told.append(
                (
                    f"gradient noise scale {_told(self.noise)}: larger batches need more samples",
                    self.noise_tag,
                )
            )
        if self.hours_between_stops is not None:
            told.append((f"one unexpected stop per {self.hours_between_stops:g} GPU-hours", "named"))
            told.append((f"a save takes {SAVE_S:g} s, going on after a stop {RESTART_S:g} s", "assumed"))
        return tuple(told)


def _told(noise: Interval) -> str:
    estimate, low, high = (f"{value:,.0f}" for value in (noise.estimate, noise.low, noise.high))
    return f"{estimate} samples" if low == high else f"{estimate} samples ({low} to {high})"
