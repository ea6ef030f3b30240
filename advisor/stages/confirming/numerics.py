"""Numbers of a candidate beside those of the program as it is: of the first steps, in one process or two."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol

from advisor.stages.bench import MeasuredBench
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.retrying import once_more
from advisor.tuners.comparing.roundings import Nudged
from advisor.tuners.comparing.same_process import CannotRepeat, SameProcess, switchable
from advisor.tuners.knob import Value
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.memory_model import memory_limit
from advisor.tuners.supervision.failures import TrialFailed

LEARNING_SHARE = 0.1  # of the budget, for the runs of the numerics gate
LEARNING_S = 10.0  # for them, where that allows at least ``FEW_STEPS``: long steps tell as much one by one
MIN_LEARNING_STEPS = 3
FEW_STEPS = 6  # that tell in one process what fresh ones do (benchmarks/numerics_agreement.py)
RUNS = 5  # with the baseline's own
LEARNT = 0.2  # of the first losses, below which a process has learnt too much to compare numbers in it


@dataclass
class Numerics:
    """What was found out about a nominee.

    Attributes:
        config: The nominee less what drifts.
        verdicts: Per change and, under ``""``, for the whole.
        rejected: Changes that were taken out, with the reason.
        reason: Of the last verdict that took any out.
        peaks: Peak memory of the nominee's run, in bytes.
        compile_s: The longest compilation that was seen.
    """

    config: Configuration
    verdicts: dict[str, gate.Verdict] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    peaks: tuple[int, ...] = ()
    compile_s: float | None = None


@dataclass(frozen=True)
class Yardstick:
    """Runs of the program as it is, beside which those of a candidate are held.

    Attributes:
        reference: Losses of the program as it is, and their noise.
        nudged: How far roundings grow in it.
        loader_is_live: Batches come from the program's own loader, not from recorded or fixed ones.
    """

    reference: gate.Reference
    nudged: Nudged
    loader_is_live: bool


@dataclass(frozen=True)
class Learned:
    """A few steps of a candidate, and what they are to be held against."""

    learning: gate.Learning
    yardstick: Yardstick


class NodeLost(Exception):
    """The node is gone, and what it learnt is comparable with nothing else."""


class OtherNode(Protocol):
    """One other node, on which all runs of fresh processes are made."""

    def reference(self) -> gate.Reference:
        """Runs of the program as it is.

        Raises:
            TrialFailed: One failed.
            NodeLost: They, and all others, have to be made somewhere else.
        """

    def learn(self, config: Mapping[str, Value], nudge: int = 0) -> gate.Learning:
        """The first steps of a configuration. Raises as ``reference``."""


@dataclass
class NumericsGate:
    """Judges a few steps of a candidate beside those of the program as it is.

    In one process, where that can be switched to the candidate and has proven that its loop repeats itself
    (``tuners/comparing/same_process.py``); else in fresh processes, whose first steps are compared.

    Attributes:
        steps: That are compared.
        base: The configuration of the program as it is.
        overrun: Share of the budget beyond its end, until which growing roundings are looked at.
        running: A process of the program that runs already, if there is one. It is not ended here.
        elsewhere: Where fresh processes run; ``None`` for here.
        why_fresh: Why numbers could not be compared in one process; empty while they can.
    """

    bench: MeasuredBench
    steps: int
    base: Mapping[str, Value]
    overrun: float
    running: Running | None = None
    elsewhere: OtherNode | None = None
    why_fresh: str = ""
    _process: SameProcess | None = None
    _own: Running | None = None  # that was started for this
    _latest: Yardstick | None = None

    @classmethod
    def open(
        cls,
        bench: MeasuredBench,
        base: Mapping[str, Value],
        overrun: float,
        running: Running | None = None,
        elsewhere: OtherNode | None = None,
    ) -> "NumericsGate":
        """Decide how many steps are compared; nothing is run before it is needed."""
        return cls(bench, learning_steps(bench), base, overrun, running, elsewhere)

    def close(self) -> None:
        """Let the process that ran before go on, and end the one that was started for this."""
        if self._process is not None:
            self._process.release()
        if self._own is not None:
            self._own.kill()

    @property
    def reference(self) -> gate.Reference:
        """Losses of the program as it is, beside which a candidate was held last."""
        return (self._latest or self._fresh).reference

    def prepare(self, config: Mapping[str, Value]) -> Yardstick:
        """Run the program as it is, beside which a candidate will be held.

        Raises:
            TrialFailed: It failed, or was disrupted twice.
        """
        return (self._inside if self._can_switch_to(config) else None) or self._fresh

    def learn(self, config: Mapping[str, Value]) -> Learned:
        """A few steps of a candidate.

        Raises:
            TrialFailed: It failed, or was disrupted twice.
        """
        inside = self._inside if self._can_switch_to(config) else None
        learning = None if inside is None else self._in_process(config)
        if inside is None or learning is None:
            try:
                self._latest = self._fresh
                learning = self._in_fresh(config)
            except NodeLost:
                self._come_back()
                return self.learn(config)
        else:
            self._latest = inside
        return Learned(learning, self._latest)

    def judge(self, learned: Learned, changed: Sequence[str], config: Mapping[str, Value]) -> gate.Verdict:
        """What is to be said of a few steps of a candidate.

        What drifts in one process is believed once the program as it is still repeats itself there: else
        the steps of fresh processes are judged.

        Args:
            learned: What ``learn`` gave.
            changed: The knobs that make it another program.
            config: Their values, and those of the others.

        Raises:
            TrialFailed: It had to be run in a fresh process, and failed there.
        """
        try:
            verdict = self._judge(learned, changed, config)
        except NodeLost:
            self._come_back()
            return self.judge(self.learn(config), changed, config)
        if verdict.verdict in ("within_noise", "drifts") and not learned.yardstick.reference.seeds:
            learned = self._beside_other_seeds(learned, config)
            verdict = self._judge(learned, changed, config)
        process = self._process
        if verdict.verdict != "drifts" or process is None or learned.yardstick is not self._inside:
            return verdict
        if process.still_repeats():
            return verdict
        self._leave("the loop does not repeat itself any more")
        return self._judge(self.learn(config), changed, config)

    def _beside_other_seeds(self, learned: Learned, config: Mapping[str, Value]) -> Learned:
        """The same beside runs of the program as it is from other seeds, in the one process.

        Raises:
            TrialFailed: It had to be run in a fresh process, and failed there.
        """
        yardstick, process = learned.yardstick, self._process
        if process is None or yardstick is not self._inside:
            return learned
        try:
            reference = process.with_other_seeds(yardstick.reference)
        except (CannotRepeat, TrialFailed) as reason:
            self._leave(reason.failure.message if isinstance(reason, TrialFailed) else str(reason))
            return self.learn(config)
        self._latest = self.__dict__["_inside"] = replace(yardstick, reference=reference)
        return Learned(learned.learning, self._latest)

    def _judge(self, learned: Learned, changed: Sequence[str], config: Mapping[str, Value]) -> gate.Verdict:
        draws = gate.own_draws(
            changed,
            has_dropout=any(root.has_dropout for root in self.bench.profile.roots),
            loader_is_live=learned.yardstick.loader_is_live,
        )
        knobs = self.bench.arena.knobs
        return gate.judge(
            learned.yardstick.reference,
            learned.learning.losses,
            gate.widest([knobs[name].meaning(config) for name in changed]),
            own_draws=draws,
            norms=learned.learning.grad_norms,
            nudged=learned.yardstick.nudged,
        )

    def _can_switch_to(self, config: Mapping[str, Value]) -> bool:
        """Whether a process can; one that runs, or that spares the runs of fresh ones."""
        if not switchable(self.bench.arena.knobs, self.base, config):
            return False
        runs = self._process is not None or (self.running is not None and self.running.alive)
        return runs or "_fresh" not in vars(self)

    def _in_process(self, config: Mapping[str, Value]) -> gate.Learning | None:
        """A candidate's steps in the one process; ``None`` where a fresh one has to tell."""
        assert self._process is not None
        try:
            learning = self._process.learn(config)
        except CannotRepeat as reason:
            self._leave(str(reason))
            return None
        except TrialFailed as failed:
            self._leave(failed.failure.message)
            return None
        limit = memory_limit(self.bench.profile, self.bench.settings.max_memory)
        # the peak is that of all runs in this process: too much of it may be another one's
        return learning if limit is None or learning.peak_bytes <= limit else None

    def _leave(self, reason: str) -> None:
        """Go on in fresh processes."""
        self.close()
        self._process, self.why_fresh = None, reason
        self.__dict__["_inside"] = None  # the cached answer
        self.bench.progress.say(f"comparing numbers in fresh processes: {reason}")

    @cached_property
    def _inside(self) -> Yardstick | None:
        """The runs of the program as it is in one process; ``None`` where that cannot be."""
        arena, progress = self.bench.arena, self.bench.progress
        if not arena.timed:
            self.why_fresh = "each run's memory is compared"
            return None
        progress.say(f"comparing the numbers of {self.steps} steps in one process")
        try:
            reference = self._of_running() or self._of_own()
        except (CannotRepeat, TrialFailed, SessionEnded) as reason:
            self._leave(reason.failure.message if isinstance(reason, TrialFailed) else str(reason))
            return None
        assert self._process is not None
        return Yardstick(reference, Nudged(self._process.nudged, self._affordable), loader_is_live=False)

    def _of_running(self) -> gate.Reference | None:
        """The program as it is in the process that runs already; ``None`` where that is dead or worn.

        Raises:
            CannotRepeat: Its loop does not repeat itself, so that of another process would not either.
            TrialFailed: It failed, of itself.
        """
        running = self.running
        if running is None or not running.alive:
            return None
        self._process = SameProcess(running, self.base, self._whole_periods())
        try:
            reference = self._process.reference()
        except CannotRepeat:
            if running.alive:
                raise
            return None
        if not is_worn(reference.losses, self.bench.baseline.losses):
            return reference
        self._process.release()
        return None

    def _of_own(self) -> gate.Reference:
        """The same in a process that is started for this.

        Raises:
            CannotRepeat: As of ``SameProcess``.
            TrialFailed: It failed.
            SessionEnded: It ended before its first step.
        """
        self._own = self.bench.arena.start(self.base, 0)
        self._own.first_step()
        self._process = SameProcess(self._own, self.base, self._whole_periods())
        return self._process.reference()

    def _whole_periods(self) -> int:
        """Steps after which the order of several optimizers has come round."""
        period = self.bench.arena.period
        return -(-self.steps // period) * period

    @cached_property
    def _fresh(self) -> Yardstick:
        """The runs of the program as it is in fresh processes.

        Raises:
            TrialFailed: One failed, or was disrupted twice.
        """
        arena, base, steps, there = self.bench.arena, self.base, self.steps, self.elsewhere
        self.bench.progress.say(f"comparing the numbers of the first {steps} steps")
        return Yardstick(
            there.reference() if there else once_more(lambda: gate.reference(arena, base, steps)),
            Nudged(lambda seed: self._in_fresh(base, seed, once=True).losses, self._affordable),
            loader_is_live=self.bench.launcher.target.kind in ("script", "module"),
        )

    def _in_fresh(self, config: Mapping[str, Value], nudge: int = 0, *, once: bool = False) -> gate.Learning:
        """The first steps of a fresh process; taken anew if they were disrupted, unless ``once``."""
        arena = self.bench.arena
        if self.elsewhere is not None:
            return self.elsewhere.learn(config, nudge)
        run = partial(gate.learn, arena, config, self.steps, nudge=nudge)
        return run() if once else once_more(run)

    def _come_back(self) -> None:
        """Make all runs of fresh processes here, from now on."""
        self.bench.progress.say("comparing the numbers here: the node that did is gone")
        self.elsewhere, self._latest = None, None
        vars(self).pop("_fresh", None)

    def _affordable(self) -> bool:
        return self.bench.clock() < self.bench.deadline + self.overrun * self.bench.settings.budget_s


def is_worn(losses: Sequence[float], at_first: Sequence[float]) -> bool:
    """Whether training has come too far for its losses to be compared relative to their size.

    A search may have run thousands of steps, and tried what has made a loss infinite; a program that knows
    its data by heart has losses in which a rounding is a large part.

    Args:
        losses: Of the process that was searched in.
        at_first: Of the first steps of the program.
    """
    if not all(map(math.isfinite, losses)):
        return all(map(math.isfinite, at_first))
    if not losses or not at_first or not all(map(math.isfinite, at_first)):
        return False
    return statistics.fmean(map(abs, losses)) < LEARNT * statistics.fmean(map(abs, at_first))


def learning_steps(bench: MeasuredBench) -> int:
    """Steps of the gate's runs that a tenth of the budget allows; of long steps no more than a few."""
    arena = bench.arena
    affordable = LEARNING_SHARE * bench.settings.budget_s / RUNS / arena.step_s
    enough = max(FEW_STEPS, LEARNING_S / RUNS / arena.step_s)
    steps = max(MIN_LEARNING_STEPS, min(gate.STEPS, int(affordable), int(enough)))
    return steps if arena.max_steps is None else min(steps, arena.max_steps - 1)
