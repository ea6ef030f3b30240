"""Whether compiling a nominee is won back in the steps to come."""

import math
from dataclasses import dataclass

from advisor.result import wording
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.compile_cost import break_even_steps
from advisor.stages.confirming.outcome import Outcome
from advisor.stages.trials import TrialLog
from advisor.tuners.mechanisms.compiling import compiles
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space


@dataclass(frozen=True)
class Compiling:
    """Weighs what compiling costs against the steps that the program will make."""

    bench: MeasuredBench
    space: Space
    trials: TrialLog

    def adds(self, config: Configuration) -> bool:
        """Whether it compiles what the baseline does not."""
        return compiles(config) and any(
            self.bench.arena.knobs[name].compiles for name in config.changed(self.space.present)
        )

    def first_s(self, config: Configuration) -> float | None:
        """Seconds that its first trial compiled; ``None`` where it compiles no more than the baseline."""
        return self.trials.first_compile_s(config) if self.adds(config) else None

    def paid_back(self, winner: Configuration, outcome: Outcome) -> Configuration:
        """Without compiling where that cannot be won back in the steps to come: the rest is worth having."""
        alone = outcome.contributions.get("execution")
        cost_s = self.first_s(winner)
        if cost_s is None or self._for_memory or (planned := self.planned_steps) is None:
            return winner
        without = self.space.without(winner, "execution")
        if alone is None:  # the only change is weighed once confirmed; others must not pay for it
            little = cost_s <= self.bench.settings.min_gain * planned * self.bench.baseline.step_s
            if little or not without.changed(self.space.present):
                return winner
            outcome.reason = outcome.rejected["execution"] = f"{wording.UNWEIGHED} within {planned} steps"
            return without
        changed, known = winner.changed(self.space.present), outcome.contributions
        gains = [each.estimate for name, each in known.items() if name in changed]
        ratio, whole = math.exp(alone.estimate), math.exp(sum(gains))
        steps = break_even_steps(cost_s, self.bench.baseline.step_s, whole=whole, alone=ratio)
        if steps is not None and steps <= planned:
            return winner
        outcome.reason = outcome.rejected["execution"] = f"{wording.UNPAID} within {planned} steps"
        return without

    @property
    def planned_steps(self) -> int | None:
        """Within which compiling must pay; whoever names how to execute need not mean this one launch."""
        run = self.bench.baseline.profile.run
        own = None if run is None or "execution" in self.space.named else run.training_steps
        return own if self.bench.settings.steps_planned is None else self.bench.settings.steps_planned

    def unpaid(self, winner: Configuration, outcome: Outcome) -> bool:
        """Whether what was confirmed does not win back its compiling."""
        planned = self.planned_steps
        if self._for_memory:  # which is bought with time
            return False
        if planned is None or not self.adds(winner):
            return False
        steps = outcome.break_even_steps(self.bench.baseline.step_s)
        return steps is None or steps > planned

    @property
    def _for_memory(self) -> bool:
        return self.bench.settings.objective == "memory"
