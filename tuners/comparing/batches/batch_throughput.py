"""What larger batches would give, measured beside the verdict: throughput only, never recommended by it."""

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.measure import Estimate, moderated, within
from advisor.tuners.comparing.ways import BATON, WINDOWS
from advisor.tuners.knob import Value
from advisor.tuners.launching.rank_group import Running, end
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.mechanisms.compiling import compiles
from advisor.tuners.space.space import Space
from advisor.tuners.supervision.failures import RESOURCE_CAUSES, TrialFailed

QUADS = 3
PAIRS = 4  # of windows in one process, every other one in swapped roles
LEVEL = 0.99
WORTH = math.log(1.02)  # a doubling that gives less than this ends the climb


@dataclass(frozen=True)
class Measured:
    """A batch size, and its throughput over that of the recommendation (log ratio)."""

    batch_size: int
    lr_scaling: str
    estimate: Estimate


def propose_batches(
    arena: Arena,
    space: Space,
    base: Mapping[str, Value],
    deadline: float,
    say: Callable[[str], None],
    startup_s: float = 0.0,
) -> list[Measured]:
    """Climb through larger batches while each gives more samples per second and time is left.

    Args:
        arena: Runs the comparisons.
        space: Holds ``batch_size`` and ``lr_scaling``; without them nothing is measured.
        base: The configuration to start from.
        deadline: Monotonic time at which to stop.
        say: Is told what is measured.
        startup_s: From starting the program to its first step.
    """
    with ExitStack() as stack:
        return _climbed(_Comparing(arena, space, startup_s, stack), base, deadline, say)


def _climbed(
    comparing: "_Comparing", base: Mapping[str, Value], deadline: float, say: Callable[[str], None]
) -> list[Measured]:
    arena, space = comparing.arena, comparing.space
    measured: list[Measured] = []
    present = space.present.get("batch_size")
    if present is None or not isinstance(present, int):
        return measured
    best = 0.0
    cost_s = None
    for value in sorted(v for v in space.choices["batch_size"] if isinstance(v, int) and v > present):
        began = arena.clock()
        rule = str(space.complete({"batch_size": value}).get("lr_scaling", "none"))
        config = {**base, "batch_size": value, "lr_scaling": rule}
        start = {**base, "batch_size": present, "lr_scaling": "none"}
        if space.check({name: config[name] for name in space.present}) is not None:
            break
        cost_s = comparing.expected_s(start, config) if cost_s is None else 2 * cost_s
        if began + cost_s > deadline:
            break
        say(f"measuring batch size {value}, for a proposal")
        try:
            estimate = comparing.compare(start, config)
        except TrialFailed as failed:
            if failed.failure.cause in RESOURCE_CAUSES:
                break
            return measured
        cost_s = arena.clock() - began
        measured.append(Measured(value, rule, estimate))
        if estimate.estimate < best + WORTH:
            break
        best = estimate.estimate
    return measured


@dataclass
class _Comparing:
    """Compares batch sizes: in one process whose loader is switched, where it can be, else in their own.

    Throughput alone is asked, so what forbids to switch the batch of a search does not count: the memory that
    a size needs, and that a program may have read the length of its epoch before. One that ends for that goes
    on in processes of its own.
    """

    arena: Arena
    space: Space
    startup_s: float
    stack: ExitStack
    _session: Running | None = None
    _ended: bool = False

    def expected_s(self, start: Mapping[str, Value], config: Mapping[str, Value]) -> float:
        """Seconds of comparing one batch, each step as long as one of the baseline."""
        arena, how = self.arena, self.arena.how(start, config, fresh=True)
        of_both = sum(arena.window_steps(start)) + sum(arena.window_steps(config))
        if self._switches(start, config):
            start_s = self.startup_s if self._session is None else 0.0
            return start_s + PAIRS * of_both * arena.step_s
        if how == WINDOWS:
            return 2 * (2 * self.startup_s + of_both * arena.step_s)
        starts = arena.starts(start, config) if how == BATON else 1
        return 2 * (starts * self.startup_s + QUADS * arena.quad_s)

    def compare(self, start: Mapping[str, Value], config: Mapping[str, Value]) -> Estimate:
        """Log ratio of samples per second.

        Raises:
            TrialFailed: It cannot be measured.
        """
        if self._switches(start, config):
            try:
                return self._in_one_process(start, config)
            except SessionEnded:
                self._ended = True
            except TrialFailed as failed:
                if failed.failure.cause in RESOURCE_CAUSES:
                    raise
                self._ended = True
        ratios: list[float] = []
        how = self.arena.how(start, config, fresh=True)
        for swapped in (False, True):
            ratios += self.arena.duel(start, config, how=how, quads=QUADS, swapped=swapped).log_ratios
        return replace(within(ratios, LEVEL), instances=2)

    def _switches(self, start: Mapping[str, Value], config: Mapping[str, Value]) -> bool:
        loader, arena = self.space.profile.loader, self.arena
        if self._ended or loader is None or loader.fixed is not None or not arena.timed or compiles(config):
            return False
        if int(config.get("ranks", 1)) > 1:
            return False
        return replace(arena, switches=[*arena.switches, "batch_size"]).may_switch(start, config)

    def _in_one_process(self, start: Mapping[str, Value], config: Mapping[str, Value]) -> Estimate:
        session = self._session
        if session is None:
            session = self._session = self.arena.start(start, 0)
            self.stack.callback(end, session)
            session.first_step()
            self.arena.warm_up(session, config=start)
        ratios = [
            self.arena.switched(session, start, config, swapped=number % 2 == 1).log_ratios
            for number in range(PAIRS)
        ]
        return replace(moderated(ratios, LEVEL, WINDOWS), instances=1)
