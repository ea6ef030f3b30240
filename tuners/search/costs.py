"""Seconds that trying something takes on this program: for the order, the plan and what is told of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.warm_up import LONG_STEP_S
from advisor.tuners.comparing.ways import BATON, LIVE, WINDOWS
from advisor.tuners.knob import Value
from advisor.tuners.mechanisms.compiling import compiles
from advisor.tuners.search.race import LONG_QUAD_S, duel_quads, is_short
from advisor.tuners.space.constraints import COMPILE_S

LIVE_QUADS = 4  # a race of live knobs looks at 1, 3, 6 and 12; most are clear at the second or third
LONG_LIVE_QUADS = 2  # of long steps, where one that is clear suffices
WARM_STEPS = 8  # of a process before it is measured
LONG_WARM_STEPS = 3  # where they are long
PAIR_QUADS = (3, 2, 1)  # of a pair of fresh processes: of quads as long as usual, of longer, of very long
DEAR = 3.0  # times a log ratio: the share of what is left, beyond which telling it takes too much
VERDICT_STARTS = 5  # of a verdict: a change taken out, answers compared, the first two pairs
LONGER_S = 2.0  # of a quad; very long is twice that
END_S = 0.3  # to end a process tree
FRESH = ("spawn", "forkserver")  # workers that import, at the same time, what the program does
WORKER_S = 0.1  # to fork and end a worker of a loader in a process that has torch; seen: 0.09 to 0.12


@dataclass(frozen=True)
class Costs:
    """Costs of trials of one program.

    Attributes:
        arena: Knows what a step of the baseline takes, and how two configurations are compared.
        startup_s: From starting the program to its first step.
        compile_s: Of compiling with an empty cache.
    """

    arena: Arena
    startup_s: float = 0.0
    compile_s: float = COMPILE_S

    @property
    def launch_s(self) -> float:
        """Seconds of one process until it can be measured, and of its end."""
        return self.startup_s + END_S + self._warm_s

    @property
    def _warm_s(self) -> float:
        steps = LONG_WARM_STEPS if self.arena.step_s >= LONG_STEP_S else WARM_STEPS
        return steps * self.arena.step_s

    @property
    def pair_quads(self) -> int:
        """Quads that a pair of fresh processes takes at least."""
        usual, longer, very_long = PAIR_QUADS
        if self.arena.quad_s <= LONGER_S:
            return usual
        return longer if self.arena.quad_s <= 2 * LONGER_S else very_long

    def pair_s(self, speed: float = 1.0) -> float:
        """Seconds of two fresh processes, the baseline and a candidate, that are compared once.

        Args:
            speed: Of the candidate over the baseline, by which its steps take less.
        """
        arena, of_both = self.arena, 1 + 1 / speed
        if arena.queue_depth(arena.present) > 0:
            steps_s = self._warm_s + self._window_s(arena.present)
            starts = 1 if arena.start_together(arena.present, arena.present) else 2
            return starts * (self.startup_s + END_S) + of_both * steps_s
        starts = arena.starts(arena.present, arena.present)
        starts_s = starts * (self.startup_s + END_S + of_both / 2 * self._warm_s)
        return starts_s + of_both / 2 * self.pair_quads * arena.quad_s

    def trial_s(
        self, incumbent: Mapping[str, Value], config: Mapping[str, Value], speed: float = 1.0
    ) -> float:
        """Seconds of one trial, by the way in which its configuration is compared with the incumbent.

        Args:
            incumbent: What it is compared with; its window may be kept from an earlier trial.
            config: What is tried.
            speed: Of it over the baseline's, as expected: its own windows take so much less, and quads in
                which only it and the incumbent take turns, which is nearly as fast.
        """
        arena = self.arena
        compile_s = self.compile_s if self._compiles_anew(incumbent, config) else 0.0
        how, making_s = arena.how(incumbent, config), self.making_s(config)
        if how == WINDOWS:
            window_s = making_s + self.launch_s + self._window_s(config) / speed
            missing = () if arena.kept.of(incumbent) else (incumbent,)
            start_s = 0.0 if arena.start_together(incumbent, config) else self.launch_s
            others_s = sum(start_s + self._window_s(each) for each in missing)
            return compile_s + window_s + others_s
        if how == BATON:
            making_s += self.making_s(incumbent)
            return compile_s + making_s + 2 * self.launch_s + duel_quads(arena) * arena.quad_s
        if how == LIVE:
            quads = LONG_LIVE_QUADS if arena.quad_s > LONG_QUAD_S else LIVE_QUADS
            return compile_s + quads * arena.quad_s / speed
        seconds = compile_s + self._switched_s(config) / speed
        return seconds + (self._switched_s(incumbent) if is_short(arena, incumbent) else 0.0)

    def making_s(self, config: Mapping[str, Value]) -> float:
        """Seconds that a process takes to make what its settings ask for; as of ``Knob.makes_s``."""
        return sum(knob.makes_s(config) for name, knob in self.arena.knobs.items() if name in config)

    def worth_making(self, more_s: float, left_s: float) -> float:
        """Log ratio that pays, in what is left, for so many more seconds in each start of a verdict."""
        return VERDICT_STARTS * more_s / (DEAR * max(more_s, left_s))

    def _window_s(self, config: Mapping[str, Value]) -> float:
        """Of a process of its own, by steps of the baseline."""
        return sum(self.arena.window_steps(config, fresh=True)) * self.arena.step_s

    def _switched_s(self, config: Mapping[str, Value]) -> float:
        steps_s = sum(self.arena.window_steps(config)) * self.arena.step_s
        workers = int(config.get("num_workers", 0))
        fresh_s = self.startup_s if workers and config.get("multiprocessing_context") in FRESH else 0.0
        return max(WORKER_S * workers, fresh_s) + steps_s

    def _compiles_anew(self, incumbent: Mapping[str, Value], config: Mapping[str, Value]) -> bool:
        return compiles(config) and any(
            self.arena.knobs[name].compiles and incumbent.get(name) != value for name, value in config.items()
        )
