"""The gradient noise scale of a running program, from the gradient norms of its updates at two batch sizes.

The program runs its first steps twice, with its own batch size and with another, from the same seed and
with its own learning rate, so that both follow the same path; the norms are those its first optimizer
sees. A program's first steps have a smaller noise scale than its later ones (McCandlish et al. 2018), so
advice that rests on it is careful with larger batches.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from advisor.profiles.derived.epochs import batches_per_update
from advisor.profiles.facts.profile import LoaderFacts, Profile
from advisor.tuners.comparing.batches.goodput import NoiseScale, Unknown, estimate_noise_scale
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.gate import Learning, learn
from advisor.tuners.knob import Value
from advisor.tuners.supervision.failures import RESOURCE_CAUSES, TrialFailed

FACTORS = (4, 2)  # of the present batch, in the order in which another size is tried; then their inverses
STEPS = 32  # of one run: four blocks of the jackknife
ROUNDS = 2  # runs of each size, from different seeds
ALIKE = 3  # of the largest norms, that are a ceiling when they are the same
ROUNDING = 1e-5  # relative, of a norm computed twice in float32
CLIP_EPSILON = 1e-6  # torch's clip_grad_norm_ adds it to the norm before it divides


@dataclass(frozen=True)
class Sizes:
    """Two batch sizes: ``present`` and ``other`` as the loader has them, ``per_update`` batches to a step."""

    present: int
    other: int
    per_update: int

    def samples(self, batch: int) -> int:
        """Samples of one update."""
        return batch * self.per_update


def measure_noise_scale(
    arena: Arena,
    present: Mapping[str, Value],
    profile: Profile,
    *,
    max_batch: int | None = None,
    steps: int = STEPS,
    rounds: int = ROUNDS,
    deadline: float = math.inf,
    say: Callable[[str], None] = lambda text: None,
) -> NoiseScale | None:
    """Measure the noise scale, in samples per update.

    A larger batch that does not fit into memory is followed by a smaller one. What cannot be told is no
    number: norms that were clipped, were not seen, or do not tell gradient and noise apart. Clipping by
    value and other changes of the gradients before the update cannot be recognised.

    Args:
        arena: Starts the program.
        present: The baseline's setting.
        profile: Of the baseline.
        max_batch: The largest batch size to try.
        steps: Steps of one run.
        rounds: Runs of each size; those after the first are left out when time is short.
        deadline: Monotonic time at which no further round is begun.
        say: Is told why there is no answer.

    Returns:
        ``None`` where it is not known.
    """
    found = _measure(arena, present, profile, max_batch, steps, rounds, deadline)
    if isinstance(found, NoiseScale):
        return found
    say(f"the gradient noise scale is not known: {found.reason}")
    return None


def clipped(norms: Sequence[float]) -> bool:
    """Whether the largest norms are all the same: a ceiling, where real ones would differ."""
    highest = sorted(norms)[-ALIKE:]
    return len(highest) == ALIKE and highest[0] >= highest[-1] * (1 - ROUNDING) - CLIP_EPSILON


def other_sizes(loader: LoaderFacts, max_batch: int | None = None) -> list[int]:
    """Batch sizes to compare the present one with, the best first."""
    present = loader.batch_size
    if present is None:
        return []
    longest = min(loader.dataset_length or math.inf, max_batch or math.inf)
    larger = [present * factor for factor in FACTORS if present * factor <= longest]
    return larger + [present // factor for factor in FACTORS if present % factor == 0]


def _measure(
    arena: Arena,
    present: Mapping[str, Value],
    profile: Profile,
    max_batch: int | None,
    steps: int,
    rounds: int,
    deadline: float,
) -> NoiseScale | Unknown:
    loader = profile.loader
    others = [] if loader is None or loader.own_batch_sampler else other_sizes(loader, max_batch)
    if loader is None or loader.batch_size is None or not others:
        return Unknown("the batch size cannot be changed")
    if any(optimizer.closure for optimizer in profile.optimizers):
        return Unknown("the optimizer evaluates the gradient several times per update")
    if arena.max_steps is not None:
        steps = min(steps, arena.max_steps - 1)
    reason = "no time was left to measure it"
    for other in others:
        if arena.clock() > deadline:
            break
        sizes = Sizes(loader.batch_size, other, batches_per_update(profile))
        try:
            runs = list(_rounds(arena, present, sizes, steps, rounds, deadline))
        except TrialFailed as failed:
            reason = failed.failure.message
            if failed.failure.cause in RESOURCE_CAUSES:
                continue
            return Unknown(reason)
        summed = profile.run is not None and bool(profile.run.sum_reduced_loss)
        return _judge(runs, sizes, loader, summed)
    return Unknown(reason)


def _rounds(
    arena: Arena,
    present: Mapping[str, Value],
    sizes: Sizes,
    steps: int,
    rounds: int,
    deadline: float,
) -> Iterator[tuple[Learning, Learning]]:
    """Runs with the present batch and with the other one, from one seed after the other."""
    changed: dict[str, Value] = {**present, "batch_size": sizes.other}
    cost_s = 0.0
    for seed in range(rounds):
        began = arena.clock()
        if seed and began + cost_s > deadline:
            return
        yield learn(arena, present, steps, seed), learn(arena, changed, steps, seed)
        cost_s = arena.clock() - began


def _judge(
    runs: Sequence[tuple[Learning, Learning]], sizes: Sizes, loader: LoaderFacts, summed: bool
) -> NoiseScale | Unknown:
    for _, changed in runs:
        if "batch_size" in changed.refused:
            return Unknown(changed.refused["batch_size"])
    norms = [norm for pair in runs for run in pair for norm in run.grad_norms]
    if not norms:
        return Unknown("no gradient was seen before an update")
    if clipped(norms):
        return Unknown("the largest gradient norms are all the same, as clipping leaves them")
    at_present, at_other = [], []
    for run, changed in runs:
        kept = [
            index
            for index in range(min(len(run.grad_norms), len(changed.grad_norms)))
            if not any(
                _has_partial_batch(index, size, sizes, loader) for size in (sizes.present, sizes.other)
            )
        ]
        at_present.append(_squared(run.grad_norms, kept, sizes.samples(sizes.present), summed))
        at_other.append(_squared(changed.grad_norms, kept, sizes.samples(sizes.other), summed))
    small, large = (at_present, at_other) if sizes.present < sizes.other else (at_other, at_present)
    return estimate_noise_scale(
        small,
        large,
        sizes.samples(min(sizes.present, sizes.other)),
        sizes.samples(max(sizes.present, sizes.other)),
        dataset_length=loader.dataset_length,
    )


def _squared(norms: Sequence[float], kept: Sequence[int], samples: int, summed: bool) -> list[float]:
    """Squared norms of the mean gradient."""
    scale = samples if summed else 1
    return [(norms[index] / scale) ** 2 for index in kept]


def _has_partial_batch(update: int, batch: int, sizes: Sizes, loader: LoaderFacts) -> bool:
    """Whether the update learns from the last batch of an epoch, and that one is smaller."""
    length = loader.dataset_length
    if length is None or loader.drop_last or length % batch == 0:
        return False
    per_epoch = length // batch + 1
    first = update * sizes.per_update
    return any((number + 1) % per_epoch == 0 for number in range(first, first + sizes.per_update))
