"""How long each phase of a trial may last."""

from dataclasses import dataclass


@dataclass
class Limits:
    """Deadlines in seconds, per phase; see reliability.md, section 3.5."""

    start_s: float = 60.0
    compile_s: float = 300.0
    step_s: float | None = None

    def for_steps(self, steps: int) -> float:
        """For that many steps: generous until the baseline's step is known."""
        if self.step_s is None:
            return self.start_s + 60.0 * steps
        return max(60.0, 20 * self.step_s) + 3 * self.step_s * steps
