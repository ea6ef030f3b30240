"""A larger batch by goodput: samples per second, what those samples are worth, and whether the loss keeps up.

Throughput alone always says "bigger" (measurement.md, section 7). A batch becomes part of the nominee only
where the lower quartile of its goodput gains enough and a short run from the same start learns as much from
the same samples. Where it does not, or that cannot be told, the next smaller batch that gains is tried; where
none is left, what was measured is shown as a proposal.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from advisor.profiles.derived.epochs import batches_per_update
from advisor.profiles.facts.profile import Profile
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.batches.batch_throughput import QUADS, Measured, propose_batches
from advisor.tuners.comparing.batches.goodput import (
    POINTS,
    Candidate,
    Goodput,
    LossMatch,
    NoiseScale,
    loss_matched,
    matching_steps,
    preferred,
    rate,
)
from advisor.tuners.comparing.batches.noise_scale import ROUNDS, STEPS, measure_noise_scale
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.knob import Value
from advisor.tuners.space.space import Space
from advisor.tuners.supervision.failures import TrialFailed

SHARE = 0.1  # of the time that is left: what comparing losses may take at once
LONGER = 1.5  # of a step of twice the batch beside one now


@dataclass(frozen=True)
class BatchAdvice:
    """What was found out about larger batches.

    Attributes:
        measured: Throughput over the present batch.
        noise: The gradient noise scale; ``None`` where it is not known.
        goodputs: Of each measured batch, where the noise scale is known.
        chosen: The batch to adopt with its learning-rate rule; ``None`` for the present one.
        match: The last short run of a larger batch beside the present one.
        reason: Why a larger batch is not chosen, in words; empty where there is none that gains more.
        refused: The batch of a search's nominee that did not prove to learn as much.
    """

    measured: Sequence[Measured] = ()
    noise: NoiseScale | None = None
    goodputs: Sequence[Goodput] = ()
    chosen: Measured | None = None
    match: LossMatch | None = None
    reason: str = ""
    refused: int | None = None

    @property
    def goodput(self) -> Goodput | None:
        """Of the chosen batch."""
        if self.chosen is None:
            return None
        return next(each for each in self.goodputs if each.batch == self.chosen.batch_size)


@dataclass(frozen=True)
class Learnt:
    """Which batch learns as much as the present one.

    Attributes:
        taken: It, with the rule of its learning rate; ``None`` where there is none.
        match: The last comparison.
        reason: Why the first that was compared is not it; empty where it is, or nothing was compared.
    """

    taken: tuple[int, str] | None
    match: LossMatch | None
    reason: str


@dataclass
class Batching:
    """Looks for a larger batch on top of a configuration.

    Attributes:
        arena: Runs everything.
        wide: A space that holds ``batch_size`` and ``lr_scaling``.
        profile: Of the baseline.
        min_gain: Relative gain of goodput that is asked for.
        max_batch: Largest batch allowed.
        deadline: Monotonic time after which nothing more is begun.
        say: Is told what is done.
    """

    arena: Arena
    wide: Space
    profile: Profile
    min_gain: float
    max_batch: int | None
    deadline: float
    say: Callable[[str], None]
    _notes: list[str] = field(default_factory=list)

    def advise(self, base: Mapping[str, Value]) -> BatchAdvice:
        """Measure larger batches than the present one, and judge the best of them.

        Args:
            base: The configuration on top of which the batch is changed.

        Raises:
            Interrupted: The user asked to stop.
        """
        present = self.wide.present.get("batch_size")
        measured = propose_batches(self.arena, self.wide, base, self.deadline, self.say)
        if not isinstance(present, int) or not gaining(measured, self.min_gain):
            return BatchAdvice(measured)
        self.say("estimating what a larger batch learns per sample")
        noise = measure_noise_scale(
            self.arena, base, self.profile,
            max_batch=self.max_batch, deadline=self.deadline, say=self._notes.append,
        )  # fmt: skip
        if noise is None:
            return BatchAdvice(measured, reason=self._notes[-1] if self._notes else "no noise scale")
        goodputs = rated(measured, present, batches_per_update(self.profile), noise)
        rules = {each.batch_size: each.lr_scaling for each in measured}
        wanted = [(best.batch, rules[best.batch]) for best in preferred(goodputs, self.min_gain)]
        found = self.first_that_learns(base, wanted, present)
        chosen = next((each for each in measured if found.taken and each.batch_size == found.taken[0]), None)
        reason = found.reason if chosen is not None else found.reason or _not_worth_it(goodputs)
        return BatchAdvice(measured, noise, goodputs, chosen, found.match, reason)

    def first_that_learns(
        self, base: Mapping[str, Value], wanted: Iterable[tuple[int, str]], present: int
    ) -> Learnt:
        """Compare losses batch by batch; after one that learns less, or maybe, only smaller ones count.

        Args:
            base: The configuration on top of which the batch is changed.
            wanted: Batch sizes with the rule of their learning rate, the best first.
            present: The batch size of the program.
        """
        reason, match, refused = "", None, math.inf
        for batch, rule in wanted:
            if batch >= refused:
                continue
            match = self.match(base, batch, rule, present)
            if match.verdict == "ok":
                return Learnt((batch, rule), match, reason)
            reason = reason or f"with batch size {batch}, {match.reason}"
            if match.verdict == "unknown" and not match.undecided:
                break
            refused = batch
        return Learnt(None, match, reason)

    def match(self, base: Mapping[str, Value], batch: int, rule: str, present: int) -> LossMatch:
        """Train both from the same start on the same number of samples, on more where these tell nothing.

        What is learnt in a few steps says little of a learning rate that is too high later: it begins with
        as many samples as a small share of the time allows.

        Args:
            base: The configuration on top of which the batch is changed.
            batch: The larger batch size.
            rule: Of the learning rate that goes with it.
            present: The batch size of the program.
        """
        self.say(f"comparing what is learnt with batch size {batch} from the same samples")
        looks = [matching_steps(present, batch, points) for points in POINTS]
        first = sum(self._fits(few + many, SHARE) for few, many in looks[1:])
        match = LossMatch("unknown", "no time was left to compare what is learnt from the same samples")
        kept = {**base, "batch_size": present, "lr_scaling": "none"}
        changed = {**base, "batch_size": batch, "lr_scaling": rule}
        each_update = batches_per_update(self.profile)
        for few, many in looks[first:]:
            if not self._fits(few + many):
                break
            try:
                before, after = gate.learn(self.arena, kept, few), gate.learn(self.arena, changed, many)
            except TrialFailed as failed:
                return LossMatch("unknown", failed.failure.message)
            match = loss_matched(
                before.losses,
                after.losses,
                baseline_batch=each_update * present,
                candidate_batch=each_update * batch,
                summed=bool(self.profile.run and self.profile.run.sum_reduced_loss),
            )
            if not match.undecided:
                break
        return match

    def _fits(self, steps: int, share: float = 1.0) -> bool:
        """Whether there is time for these steps within this share of what is left."""
        if self.arena.max_steps is not None and steps > self.arena.max_steps:
            return False
        return steps * self.arena.step_s <= share * (self.deadline - self.arena.clock())


def gaining(measured: Sequence[Measured], min_gain: float) -> list[Measured]:
    """Those that surely give more samples per second."""
    return [each for each in measured if math.exp(each.estimate.low) > 1 + min_gain]


def rated(measured: Sequence[Measured], present: int, each_update: int, noise: NoiseScale) -> list[Goodput]:
    """Goodput of each measured batch over the present one.

    Args:
        measured: Throughput over the present batch.
        present: The batch size of the program.
        each_update: Batches that one update learns from: the noise scale is in samples of one update.
        noise: The gradient noise scale.
    """
    candidates = [Candidate(each_update * each.batch_size, each.estimate) for each in measured]
    found = [rate(each, each_update * present, noise) for each in candidates]
    return [replace(each, batch=each.batch // each_update) for each in found]


def expected_s(arena: Arena, startup_s: float) -> float:
    """Seconds that ``Batching.advise`` takes where the next larger batch is the best one.

    Args:
        arena: Knows what a step and a quad take now; a step of a larger batch takes longer.
        startup_s: From starting the program to its first step.
    """
    duels = 2 * QUADS * arena.quad_s * LONGER
    noise = 2 * ROUNDS * STEPS * arena.step_s * LONGER
    match = sum(matching_steps(1, 2)) * arena.step_s * LONGER
    return duels + noise + match + (4 + 2 * ROUNDS + 2) * startup_s


def _not_worth_it(goodputs: Sequence[Goodput]) -> str:
    best = max(goodputs, key=lambda each: each.estimate)
    return (
        f"batch size {best.batch} gives {best.throughput:.2f}x the samples per second, each of them worth "
        f"{best.efficiency:.2f} of one now: goodput {best.estimate:.2f}x ({best.low:.2f} to {best.high:.2f})"
    )
