"""Numbers of a change that needs a restart, by the first steps of the processes that confirm it.

Each process keeps its first losses and the norm of its first gradients, so the first two pairs of a
confirmation show what else takes launches of their own. How they are started follows from what a change may
do:

| the change | first pair | second pair |
|---|---|---|
| exact | baseline, candidate | both once more |
| reorders roundings | the baseline's weights moved by a few roundings, candidate | both from another seed |
| draws other numbers, or has fewer bits | baseline, candidate | both from another seed |

Within a pair both read the same batches, so what is timed stays comparable. The losses of the program's very
first process are the baseline's run beside these. All this is never kinder than the gate
(``tuners/comparing/gate.py``): fewer runs of the baseline allow less. What is not beyond doubt is left to it.

Where changes of how batches are made come with others to which one process can switch, these others are
judged by themselves in one process before, and the pairs tell whether all of them together are as they should
be.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from advisor.base.settings import Progress
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.numerics import MIN_LEARNING_STEPS
from advisor.stages.confirming.outcome import Outcome
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.duel import Duel
from advisor.tuners.comparing.roundings import CLOSE, LEAST_TELLING, Growth, Nudged, relative_each
from advisor.tuners.comparing.same_process import switchable
from advisor.tuners.comparing.ways import LIVE
from advisor.tuners.knob import Semantics, Value
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.messages import TrialOutcome

PAIRS = 2  # that are looked at
NUDGE = 1  # which of the runs with nudged weights


class InDoubt(Exception):
    """The first steps of the pairs do not say that the numbers are right; the message is why."""


@dataclass(frozen=True)
class Kind:
    """What changes may do to numbers.

    Attributes:
        semantics: Of that which may do most.
        draws: Some draw other random numbers by nature.
        apart: Changes to be judged by themselves before, in one process; the others change how batches
            are made.
    """

    semantics: Semantics
    draws: bool
    apart: tuple[str, ...] = ()


def told_by_pairs(
    bench: MeasuredBench, base: Mapping[str, Value], winner: Mapping[str, Value]
) -> Kind | None:
    """Of what kind the changes of a candidate are, where pairs can tell its numbers.

    Args:
        bench: On which it is confirmed.
        base: The configuration of the program as it is.
        winner: The candidate.

    Returns:
        Their kind. ``None`` where one process can switch to it, where changes are of several kinds of which
        some cannot be judged apart (a mistake in one that is exact could hide behind one that is not; none
        in how batches are made is that small), and where several ranks train.
    """
    arena = bench.arena
    if (
        not arena.timed
        or switchable(arena.knobs, base, winner)
        or arena.how(base, winner, fresh=True) == LIVE
    ):
        return None
    if any(int(config.get("ranks", 1)) > 1 for config in (base, winner)):
        return None
    at_first = bench.baseline.losses
    if len(at_first) < MIN_LEARNING_STEPS or not all(map(math.isfinite, at_first)):
        return None
    dropout = any(root.has_dropout for root in bench.profile.roots)
    live = bench.launcher.target.kind in ("script", "module")
    changed = [name for name, value in winner.items() if value != base[name]]
    loading = [name for name in changed if arena.knobs[name].loading]
    kinds = {
        (
            arena.knobs[name].meaning(winner),
            gate.own_draws(loading if name in loading else [name], has_dropout=dropout, loader_is_live=live),
        )
        for name in changed
    }
    if any(semantics is Semantics.TRAINING for semantics, _ in kinds):
        return None
    rest = tuple(name for name in changed if name not in loading)
    if len(kinds) > 1 and not (
        loading and switchable(arena.knobs, base, {**base, **{name: winner[name] for name in rest}})
    ):
        return None
    widest = gate.widest([semantics for semantics, _ in kinds])
    return Kind(widest, any(draws for _, draws in kinds), rest if len(kinds) > 1 else ())


class Drifted(TrialFailed):
    """The numbers of a candidate drift; ``left`` is what remains of it without the changes that make them."""

    def __init__(self, left: Configuration, rejected: Mapping[str, str]) -> None:
        super().__init__(Failure("numerics_mismatch", list(rejected.values())[-1]))
        self.left = left


@dataclass
class PairNumerics:
    """Judges a candidate by the first steps of two pairs, each of a baseline and a candidate.

    Attributes:
        at_first: Losses of the program's first process.
        base: The configuration of the program as it is.
        kind: Of the changes that make the candidate another program.
    """

    at_first: Sequence[float]
    base: Mapping[str, Value]
    kind: Kind
    _pairs: list[tuple[TrialOutcome, TrialOutcome]] = field(default_factory=list)

    @classmethod
    def of(cls, bench: MeasuredBench, space: Space, winner: Configuration) -> "PairNumerics | None":
        """Of a candidate whose numbers pairs can tell (``told_by_pairs``); ``None`` where the gate has to."""
        kind = told_by_pairs(bench, space.present, winner)
        return None if kind is None else cls(bench.baseline.losses, space.present, kind)

    def options(self, pair: int, config: Mapping[str, Value]) -> dict[str, int]:
        """How a process of a pair is to be started beside its configuration (``Launcher.start``)."""
        if pair >= PAIRS:
            return {}
        options = {"norms": 1}
        if pair > 0 and not self._exact:
            options["seed_offset"] = gate.SEEDS[0]
        if pair == 0 and self._rounding and config == self.base:
            options["nudge"] = NUDGE
        return options

    def add(self, duel: Duel, held: Running | None = None) -> bool:
        """Take the first steps of one pair; whether these were the last ones that are looked at.

        Args:
            duel: Of the pair.
            held: The candidate's process, where it goes on.
        """
        if len(self._pairs) == PAIRS:
            return False
        candidate = duel.second_outcome
        if candidate is None and held is not None:
            candidate = TrialOutcome("stopped", losses=held.facts().losses)
        self._pairs.append((duel.first_outcome or TrialOutcome("ended"), candidate or TrialOutcome("ended")))
        return len(self._pairs) == PAIRS

    def look(
        self,
        winner: Configuration,
        outcome: Outcome,
        progress: Progress,
        in_fresh: Callable[[], Configuration],
    ) -> None:
        """Once all pairs are there, take what they say into an outcome.

        Args:
            winner: The candidate.
            outcome: Is given the verdict, the losses beside which it was held, and peaks of memory.
            progress: Is told.
            in_fresh: Judges what is in doubt, in processes of their own, and gives what remains.

        Raises:
            Drifted: The candidate drifts.
        """
        progress.say("comparing the numbers of the first steps of these processes")
        try:
            outcome.numerics[""], outcome.reference = self.judged()
            outcome.winner_peaks = tuple(
                peak for _, candidate in self._pairs if (peak := candidate.highest_bytes)
            )
        except InDoubt as doubt:
            progress.say(f"comparing numbers in processes of their own: {doubt}")
            left = in_fresh()
            if left != winner:
                raise Drifted(left, outcome.rejected) from doubt

    def judged(self) -> tuple[gate.Verdict, gate.Reference]:
        """What is said of the candidate, and the losses beside which it was held.

        Raises:
            InDoubt: The program does not repeat itself, or the candidate may be wrong.
        """
        outcomes = [each for pair in self._pairs for each in pair]
        steps = min(gate.STEPS, len(self.at_first), *(len(each.losses) for each in outcomes))
        if steps < MIN_LEARNING_STEPS:
            raise InDoubt("a process made too few steps")
        (first, candidate), (second, other) = (
            (_first(base, steps), _first(changed, steps)) for base, changed in self._pairs
        )
        if not all(map(math.isfinite, other.losses)):
            raise InDoubt("a loss is NaN or infinite")
        reference = self._reference(first, second, self.at_first[:steps])
        verdict = self._verdict(reference, candidate, first)
        if self._exact:
            self._verdict(reference, other, first)
        return verdict, reference

    def _reference(
        self, first: gate.Learning, second: gate.Learning, at_first: Sequence[float]
    ) -> gate.Reference:
        """The baseline's runs, once those of one seed have proven to be the same.

        Of one with nudged weights that is its first loss alone: from then on the nudge grows.
        """
        apart = relative_each(at_first, first.losses)
        again = relative_each(first.losses, second.losses) if self._exact else []
        most = max(apart[:1]) if self._rounding else max([*apart, *again])
        if not most <= (gate.REASSOCIATION if self._rounding else CLOSE):
            raise InDoubt(f"the program, started twice from one seed, gives losses that differ by {most:.1g}")
        peaks = first.peak_bytes, second.peak_bytes
        if self._exact:
            return gate.Reference(
                first.losses, second.losses, (), peaks, (first.grad_norms, second.grad_norms)
            )
        known = tuple(at_first)
        return gate.Reference(
            known,
            known if self._rounding else first.losses,
            (second.losses,),
            peaks,
            (first.grad_norms, first.grad_norms, second.grad_norms),
        )

    def _verdict(
        self, reference: gate.Reference, candidate: gate.Learning, nudged: gate.Learning
    ) -> gate.Verdict:
        """The gate's, where more runs of the baseline could not make it another one.

        Raises:
            InDoubt: They could.
        """
        grown = Nudged(_no_more, lambda: False, [nudged.losses]) if self._rounding else None
        verdict = gate.judge(
            reference,
            candidate.losses,
            self.kind.semantics,
            own_draws=self.kind.draws,
            norms=candidate.grad_norms,
            nudged=grown,
        )
        if verdict.verdict == "drifts":
            raise InDoubt(verdict.reason)
        if grown is not None and verdict.verdict == "within_noise":
            growth = Growth(reference.losses, len(candidate.losses), reference.seed_noise)
            growth.add(nudged.losses)
            close = max(relative_each(reference.losses, candidate.losses)) <= CLOSE
            if not close and (grown.problem or growth.telling < LEAST_TELLING):
                raise InDoubt("one run from nudged weights does not show how far roundings grow")
        return verdict

    @property
    def _exact(self) -> bool:
        return self.kind.semantics is Semantics.EXACT and not self.kind.draws

    @property
    def _rounding(self) -> bool:
        return self.kind.semantics is Semantics.ROUNDING and not self.kind.draws


def _first(outcome: TrialOutcome, steps: int) -> gate.Learning:
    """Its first steps."""
    return gate.Learning(outcome.losses[:steps], outcome.highest_bytes, grad_norms=outcome.grad_norms[:1])


def _no_more(number: int) -> Sequence[float]:
    raise AssertionError("no further run can be afforded")
