"""Seconds that trying something takes on this program: for the order, the plan and what is told of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.tuners.comparing.duel import BATON, LIVE, WINDOWS, Arena
from advisor.tuners.knob import Value
from advisor.tuners.mechanisms.compiling import compiles
from advisor.tuners.search.race import DUEL_QUADS
from advisor.tuners.space.constraints import COMPILE_S

LIVE_QUADS = 4  # a race of live knobs looks at 1, 3, 6 and 12; most are clear at the second or third
WARM_STEPS = 8  # of a process before it is measured
PAIR_QUADS = 3  # of a pair of fresh processes
END_S = 0.3  # to end a process tree


@dataclass(frozen=True)
class Costs:
    """Costs of trials of one program.

    Attributes:
        arena: Knows what a step of the baseline takes, and how two configurations are compared.
        startup_s: From starting the program to its first step.
    """

    arena: Arena
    startup_s: float = 0.0

    @property
    def launch_s(self) -> float:
        """Seconds of one process until it can be measured, and of its end."""
        return self.startup_s + END_S + WARM_STEPS * self.arena.step_s

    @property
    def pair_s(self) -> float:
        """Seconds of two fresh processes, the baseline and a candidate, that are compared once."""
        arena = self.arena
        if arena.queue_depth(arena.present) > 0:
            return 2 * (self.launch_s + sum(arena.window_steps(arena.present)) * arena.step_s)
        return (1 if arena.at_once else 2) * self.launch_s + PAIR_QUADS * arena.quad_s

    def trial_s(
        self, incumbent: Mapping[str, Value], config: Mapping[str, Value], speed: float = 1.0
    ) -> float:
        """Seconds of one trial, by the way in which its configuration is compared with the incumbent.

        Args:
            incumbent: What it is compared with; its window is kept from an earlier trial.
            config: What is tried.
            speed: Of it over the baseline's, as expected: its own windows take so much less.
        """
        arena = self.arena
        compile_s = COMPILE_S if self._compiles_anew(incumbent, config) else 0.0
        how = arena.how(incumbent, config)
        if how == WINDOWS:
            return compile_s + self.launch_s + sum(arena.window_steps(config)) * arena.step_s / speed
        if how == BATON:
            return compile_s + 2 * self.launch_s + DUEL_QUADS * arena.quad_s
        if how == LIVE:
            return compile_s + LIVE_QUADS * arena.quad_s
        return compile_s + LIVE_QUADS / 2 * sum(arena.window_steps(config)) * arena.step_s / speed

    def _compiles_anew(self, incumbent: Mapping[str, Value], config: Mapping[str, Value]) -> bool:
        return compiles(config) and any(
            self.arena.knobs[name].compiles and incumbent.get(name) != value for name, value in config.items()
        )
