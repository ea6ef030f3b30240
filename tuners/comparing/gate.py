"""The numerics gate: does a configuration compute the same numbers as the baseline, within its noise?

Both run the same first steps from the same seed. The yardstick is the baseline's own: the same seed
again, and two other seeds. Bounds by semantics are those of knobs.md, section 5.

Where a change that may only reorder roundings starts with the right loss and gradients, nudged runs of the
baseline show how far roundings grow in this very run (``roundings.py``).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from advisor.tuners.comparing import roundings
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.roundings import CLOSE, LEAST_TELLING, Growth, Nudged, relative, relative_each
from advisor.tuners.knob import Semantics, Value
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.supervision.failures import Failure, TrialFailed

STEPS = 20
SEEDS = (1, 2)  # offsets of the other baseline seeds
REFERENCE = (0, 0, *SEEDS)  # of all its runs: the same one twice, and others
SAME = 1e-6  # relative: equal to the last printed digits
REASSOCIATION = 1e-4  # relative, for other orders of summation
FIRST_LOSS = 2.0**-7  # relative, of the first loss under fewer bits: two roundings of bfloat16
FIRST_NORM = {Semantics.EXACT: 1e-5, Semantics.ROUNDING: 1e-3, Semantics.PRECISION: 2.0**-4}
"""Relative, of the norm of the first gradients: backward sums more roundings than the loss has."""
DRAWING = frozenset({
    "accumulation", "activation_memory_budget", "channels_last", "compile_region", "dynamic", "execution",
    "sdpa_backend",
})  # fmt: skip
"""Knobs under which a model with dropout draws other masks."""
TRAJECTORY = 2.0**-6  # relative, of the mean difference over the first steps under fewer bits
OTHER_DRAWS = (
    "; it draws other random numbers of the same distribution, so losses can be alike and not the same"
)


@dataclass(frozen=True)
class Verdict:
    """``identical``, ``within_noise``, ``drifts`` or ``not_checked``, and the figures behind it.

    ``by`` names the test of answers that decided (``tuners/accuracy/acceptance.py``); empty of a training.
    """

    verdict: Literal["identical", "within_noise", "drifts", "not_checked"]
    reason: str
    by: str = ""


@dataclass(frozen=True)
class Learning:
    """The first steps of one run: losses, and the highest memory of host and device in bytes.

    ``grad_norms`` are those before each update of the first optimizer; ``refused`` are knobs, with reasons.
    """

    losses: tuple[float, ...]
    peak_bytes: int
    compile_s: float = 0.0
    grad_norms: tuple[float, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Reference:
    """Losses of the baseline: the run, the same run again, and runs from other seeds.

    ``norms`` are the gradient norms of the same runs, in that order.
    """

    losses: tuple[float, ...]
    again: tuple[float, ...]
    seeds: tuple[tuple[float, ...], ...]
    peaks: tuple[int, ...] = ()
    norms: tuple[tuple[float, ...], ...] = ()

    @property
    def repeat_noise(self) -> float:
        """Mean relative difference of the same seed run twice."""
        return roundings.distance(self.losses, self.again)

    @property
    def seed_noise(self) -> float:
        """Largest mean relative difference between the baseline's seeds; 0 when all are equal."""
        return max((roundings.distance(self.losses, other) for other in self.seeds), default=0.0)


def reference(arena: Arena, base: Mapping[str, Value], steps: int = STEPS) -> Reference:
    """Run the baseline for its first steps: twice from one seed, and from two others."""
    return reference_of([learn(arena, base, steps, seed_offset=offset) for offset in REFERENCE])


def reference_of(runs: Sequence[Learning]) -> Reference:
    """What runs of the baseline with the seed offsets of ``REFERENCE``, in that order, make together."""
    first, again, *others = runs
    peaks, norms = tuple(run.peak_bytes for run in runs), tuple(run.grad_norms for run in runs)
    return Reference(first.losses, again.losses, tuple(other.losses for other in others), peaks, norms)


def learn(
    arena: Arena, config: Mapping[str, Value], steps: int = STEPS, seed_offset: int = 0, nudge: int = 0
) -> Learning:
    """The first ``steps`` updates under ``config``, on fixed batches where the program allows it.

    Raises:
        TrialFailed: The program failed, or a knob was neither applied nor refused.
    """
    session = arena.start(config, 0, learning_steps=steps, seed_offset=seed_offset, nudge=nudge)
    return _learnt(session, steps)


def learn_together(
    arena: Arena, runs: Sequence[tuple[Mapping[str, Value], int, int]], steps: int
) -> list[Learning]:
    """The same of several, whose processes start at the same time.

    Args:
        arena: In which they fit into memory, and have a CPU each.
        runs: Configuration, ``seed_offset`` and ``nudge`` of each.
        steps: As of ``learn``.

    Raises:
        TrialFailed: As ``learn``, of any; also where one fails only beside another.
    """
    sessions: list[Running] = []
    try:
        for config, seed_offset, nudge in runs:
            options = {"learning_steps": steps, "seed_offset": seed_offset, "nudge": nudge}
            sessions.append(arena.start(config, 0, **options))
        return [_learnt(session, steps) for session in sessions]
    finally:
        for session in sessions:
            session.kill()


def _learnt(session: Running, steps: int) -> Learning:
    """What its first steps give; it is ended."""
    try:
        session.first_step()
        if steps > 1:
            session.slot(steps - 1, drop=0)
        outcome = session.stop()
    except SessionEnded as ended:
        outcome = ended.outcome
    finally:
        session.kill()
    if outcome.unanswered:
        raise TrialFailed(
            Failure("not_applied", f"neither applied nor refused: {', '.join(outcome.unanswered)}")
        )
    return Learning(
        outcome.losses[:steps],
        outcome.highest_bytes,
        outcome.compile.seconds,
        outcome.grad_norms[:steps],
        outcome.refused,
    )


def judge(
    baseline: Reference,
    candidate: Sequence[float],
    semantics: Semantics,
    *,
    own_draws: bool,
    norms: Sequence[float] = (),
    nudged: Nudged | None = None,
) -> Verdict:
    """Compare a candidate's losses with the baseline's, then the norms of their first gradients.

    Optimizers like Adam hide gradients of the wrong size for many steps, so losses alone are not enough.

    Args:
        baseline: Losses of the baseline and its noise.
        candidate: Losses of the first steps under the change.
        semantics: The widest of all changed knobs.
        own_draws: The change draws other random numbers by nature (dropout masks under another memory
            layout, a compiler's own generator, augmentation in workers): seed noise is the yardstick.
        norms: Gradient norms of the candidate.
        nudged: Asked where a change that reorders roundings parts from the baseline after a first loss and
            first gradients as they should be. Without it fixed bounds decide.
    """
    own_finite = all(map(math.isfinite, baseline.losses))
    finite = all(map(math.isfinite, candidate))
    if baseline.losses and own_finite and not finite:
        return Verdict("drifts", "a loss is NaN or infinite")
    if semantics is Semantics.TRAINING:
        return Verdict("not_checked", "what is learnt changes by design; a few steps cannot judge it")
    if not baseline.losses or not candidate:
        return Verdict("not_checked", "the program computes no scalar loss that could be seen")
    if not finite:
        return Verdict("not_checked", "the baseline's own losses are not finite")
    count = min(len(candidate), len(baseline.losses))
    distance = roundings.distance(baseline.losses, candidate)
    first = relative(baseline.losses[0], candidate[0])
    told = f"losses of the first {count} steps differ by {distance:.2g} relative"
    noise = f"run twice unchanged: {baseline.repeat_noise:.1g}"
    if baseline.seeds:
        noise += f"; another seed: {baseline.seed_noise:.1g}"
    wrong = _wrong_gradient(baseline, norms, semantics, own_draws)
    if wrong is not None:
        return Verdict("drifts", f"{told}; {wrong}")
    if max(distance, first) <= SAME:
        return Verdict("identical", f"{told} ({noise})")
    bound = _bound(baseline, semantics, own_draws)
    first_bound = max(
        FIRST_LOSS if semantics is Semantics.PRECISION else REASSOCIATION, 2 * baseline.repeat_noise
    )
    if semantics is Semantics.EXACT:
        first_bound = bound
    if own_draws:
        first_bound = max(first_bound, baseline.seed_noise)
    fixed = Verdict("within_noise", f"{told} ({noise}){OTHER_DRAWS if own_draws else ''}")
    if distance > bound or first > first_bound:
        fixed = Verdict("drifts", f"{told}, the first by {first:.1g}; allowed were {bound:.1g} ({noise})")
    if semantics is not Semantics.ROUNDING or own_draws or first > first_bound or nudged is None:
        return fixed
    return _against_nudged(baseline, candidate, nudged, told, fixed)


def _against_nudged(
    baseline: Reference, candidate: Sequence[float], nudged: Nudged, told: str, fixed: Verdict
) -> Verdict:
    """The verdict on what rounding alone may have made of a run; ``fixed`` is the one by fixed bounds.

    The fixed bounds decide too where not enough runs could be made, where moved weights change no loss (of
    16 bits none is moved), and where roundings grow so fast that not even the first update can be told from
    them. A mistake in what later steps alone do is told only down to what roundings have grown to by then.
    """
    apart = relative_each(baseline.losses, candidate)
    if max(apart) <= CLOSE:
        return fixed
    growth = Growth(baseline.losses, len(apart), baseline.seed_noise)
    for losses in chain([baseline.again], nudged):
        growth.add(losses)
        if growth.telling < min(LEAST_TELLING, len(apart)):
            break
        if growth.beyond(apart) is None:
            return Verdict("within_noise", f"{told}; {growth.explain(apart)}")
    else:
        if not nudged.problem and (growth.mean or fixed.verdict == "drifts"):
            return Verdict("drifts", f"{told}; {growth.beyond(apart)}")
    if fixed.verdict != "drifts":
        return fixed
    why = growth.hidden()
    if nudged.problem:
        why = f"how far roundings grow could not be seen: {nudged.problem}"
    return Verdict("drifts", f"{fixed.reason}; {why}")


def _wrong_gradient(
    baseline: Reference, norms: Sequence[float], semantics: Semantics, own_draws: bool
) -> str | None:
    """How the norm of the first gradients misses the baseline's; ``None`` if it does not, or was not seen."""
    if not norms or not baseline.norms or not all(baseline.norms):
        return None
    first, again, *others = (each[0] for each in baseline.norms)
    bound = max(FIRST_NORM[semantics], 2 * relative(first, again))
    if own_draws:
        bound = max([bound, *(2 * relative(first, other) for other in others)])
    difference = relative(first, norms[0])
    if difference <= bound:
        return None
    return f"the norm of the first gradients differs by {difference:.1g} relative; allowed were {bound:.1g}"


def _bound(baseline: Reference, semantics: Semantics, own_draws: bool) -> float:
    if own_draws:
        return max(REASSOCIATION, baseline.seed_noise)
    if semantics is Semantics.EXACT:
        return max(SAME, 2 * baseline.repeat_noise)
    if semantics is Semantics.ROUNDING:
        return max(REASSOCIATION, 2 * baseline.repeat_noise)
    return max(REASSOCIATION, TRAJECTORY, baseline.seed_noise)


def own_draws(changed: Sequence[str], *, has_dropout: bool, loader_is_live: bool) -> bool:
    """Whether the changed knobs draw other random numbers than the baseline by nature.

    Args:
        changed: Ids of the changed knobs.
        has_dropout: The model has dropout.
        loader_is_live: Batches come from the program's own loader (scripts), not from fixed ones.
    """
    if has_dropout and DRAWING & set(changed):
        return True
    return loader_is_live and bool({"num_workers", "in_order"} & set(changed))


def widest(semantics: Sequence[Semantics]) -> Semantics:
    """The semantics that allows most, ``exact`` for none."""
    order = list(Semantics)
    return max(semantics, key=order.index, default=Semantics.EXACT)
