"""What a trial tells its tuner."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Slot:
    """A few consecutive steps of one arm.

    ``step_s`` holds wall seconds per step. ``work`` is what one step does, in samples where they can
    be counted and in steps otherwise.
    """

    step_s: tuple[float, ...]
    work: float = 1.0
    cpu_s: float = 0.0
    other_cpu_s: float = 0.0
    throttled_s: float = 0.0
    flags: tuple[tuple[str, int], ...] = ()

    @property
    def mean_s(self) -> float:
        """Mean wall seconds of a step."""
        return sum(self.step_s) / len(self.step_s)

    @property
    def cpu_seconds_per_unit(self) -> float:
        """CPU seconds of the process per unit of work."""
        return self.cpu_s / len(self.step_s) / self.work

    @property
    def seconds_per_unit(self) -> float:
        """Wall seconds per unit of work: the mean, so that several optimizers' periods count whole."""
        return self.mean_s / self.work
