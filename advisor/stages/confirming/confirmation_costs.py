"""Seconds of what lies between a nominee and its verdict: what does not fit into the rest is not begun."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from advisor.base.unit import Unit
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.agreement import LEAST_S, TAKEN, deciding_s
from advisor.stages.confirming.confirmation_plan import instance_quads
from advisor.stages.confirming.longer_run import steps_more, usual_steps
from advisor.stages.confirming.numerics import learning_steps
from advisor.stages.confirming.pair_numerics import told_by_pairs
from advisor.tuners.comparing.affordable import fewest_pairs
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.gate import SEEDS
from advisor.tuners.comparing.looks import LOOKS, MIN_INSTANCES
from advisor.tuners.comparing.same_process import PROOFS, switchable
from advisor.tuners.comparing.ways import BATON, WINDOWS
from advisor.tuners.knob import Value
from advisor.tuners.search.costs import END_S, Costs

WARM_COMPILE = 0.15  # of the time that it takes with an empty cache: 2 of 22 s and 5 of 71 s were seen
SLACK = 1.03  # pairs take a little more than was expected of them, and what is begun must come to its end
FRESH_RUNS = 3 + len(SEEDS)  # of the numbers: the baseline twice, other seeds, and the candidate
GROWS = 1.1  # times the budget that is needed: some of what comes before takes a share of it
ANSWERING = 2  # processes that answer: the program as it is, which does it twice, and the change
ANSWERING_SCRIPTS = 3  # whose requests go on and come once in a process; 4 where they are others in each
ON_TWO_NODES = 4  # pairs, in both orders on each
SCRIPTS = ("script", "module")


@dataclass(frozen=True)
class ConfirmationCosts:
    """What the stages of one confirmation take at least, as far as the baseline tells.

    Attributes:
        bench: Knows a start, a step, and whether a process runs that can be switched.
        first: The unchanged program's configuration.
        second: What is to be confirmed.
        speed: Of it over the unchanged program, as expected.
        compile_s: What compiling took with an empty cache, where it compiles what the other does not.
    """

    bench: MeasuredBench
    first: Mapping[str, Value]
    second: Mapping[str, Value]
    speed: float = 1.0
    compile_s: float = 0.0

    def least_s(self, there: int = 0) -> float:
        """Seconds to a verdict on a large gain: numbers, the pairs of the first look, a longer run.

        Args:
            there: How many of these pairs were measured before.
        """
        return self.takes_s(max(0, MIN_INSTANCES - there))

    def takes_s(self, pairs: int) -> float:
        """Seconds to a verdict by so many pairs: numbers, these, and a longer run."""
        return SLACK * (self.numerics_s + self.pairs_s(pairs) + self.longer_s)

    def after_numerics_s(self, there: int = 0) -> float:
        """Seconds of the pairs of the first look and of a longer run; argument as of ``least_s``."""
        return self.pairs_s(max(0, MIN_INSTANCES - there)) + self.longer_s

    @property
    def numerics_s(self) -> float:
        """Seconds in which the numbers are compared: in a process that runs, in one, or in fresh ones.

        None where the first steps of the pairs tell all of them; of requests, in which answers are kept.
        """
        if self.bench.settings.unit is Unit.REQUEST:
            starts = ANSWERING_SCRIPTS if self.bench.launcher.target.kind in SCRIPTS else ANSWERING
            decided_s = deciding_s(self.bench, self.first, self.second, self.bench.settings.max_loss)
            return starts * self._start_s + self._making_s + max(TAKEN * LEAST_S, decided_s)
        told = told_by_pairs(self.bench, self.first, self.second)
        if told is not None and not told.apart:
            return 0.0
        if told is None and not (
            self._arena.timed and switchable(self._arena.knobs, self.first, self.second)
        ):
            return FRESH_RUNS * self.fresh_run_s
        session = self.bench.baseline.session
        start_s = 0.0 if session is not None and session.alive else self._start_s
        return start_s + (PROOFS + len(SEEDS)) * (self.fresh_run_s - self._start_s)

    @property
    def fresh_run_s(self) -> float:
        """Seconds in which a fresh process makes the steps whose numbers are compared."""
        return self._start_s + (learning_steps(self.bench) + 1) * self._arena.step_s

    def pairs_s(self, count: int) -> float:
        """Seconds of so many pairs of fresh processes."""
        arena, warm_s = self._arena, self._costs.launch_s - self._start_s
        compile_s = WARM_COMPILE * self.compile_s + self._making_s
        if self.how == WINDOWS:
            of_both = [sum(arena.window_steps(config, fresh=True)) for config in (self.first, self.second)]
            steps = of_both[0] + of_both[1] / self.speed
            starts = 1 if arena.start_together(self.first, self.second) else 2
            return count * (starts * self._start_s + compile_s + steps * arena.step_s)
        quads_s = (1 + 1 / self.speed) / 2 * self.quads * arena.quad_s
        if self.how == BATON:
            starts = arena.starts(self.first, self.second)
            return count * (starts * self._start_s + compile_s + 2 * warm_s + quads_s)
        starts = math.ceil(count * arena.starts(self.first, self.second) / 2)
        return starts * self._start_s + count * (warm_s + quads_s)

    def enough(self, gain: float) -> int:
        """Pairs, of at least two nodes, that probably confirm a log ratio; all where no number does."""
        nodes = self.bench.crew.size
        pairs = fewest_pairs(math.expm1(gain), self._arena.sigma, self.quads, self.how, nodes)
        return LOOKS[-1] if pairs is None else max(ON_TWO_NODES, pairs)

    @property
    def longer_s(self) -> float:
        """Seconds of the run that shows whether it lasts."""
        steps = usual_steps(self._arena, self.second, self.how, self.quads)
        more, step_s = steps_more(steps, self._arena.step_s), self._arena.step_s / self.speed
        if self._arena.timed:  # in the last process of the pairs
            return more * step_s
        made_s = WARM_COMPILE * self.compile_s + self._making_s
        return self._start_s + made_s + (steps + more) * step_s

    @property
    def quads(self) -> int:
        """Of one pair of processes."""
        startup_s = self.bench.baseline.startup_s
        return instance_quads(self._arena, self.bench.settings, startup_s, self.speed, self.how)

    @property
    def how(self) -> str:
        """The way in which both are compared."""
        return self._arena.how(self.first, self.second, fresh=True)

    @property
    def _arena(self) -> Arena:
        return self.bench.arena

    @property
    def _making_s(self) -> float:
        return self._costs.making_s(self.second)

    @property
    def _start_s(self) -> float:
        return self.bench.baseline.startup_s + END_S

    @property
    def _costs(self) -> Costs:
        return Costs(self._arena, self.bench.baseline.startup_s)


def suggested_budget(seconds: float) -> str:
    """An option with room for so many seconds."""
    return f"`--budget {math.ceil(GROWS * seconds / 60)}m`"
