"""Batch size and learning rate judged by goodput: throughput times how much a sample still teaches.

A larger batch makes more samples per second and learns less from each. How much less follows from the
gradient noise scale: the batch size at which the noise of a gradient is as large as the gradient. Batch
sizes here are samples per update, over all micro-batches and ranks.

Sources: noise scale, McCandlish et al. 2018 (arXiv:1812.06162), appendix A; efficiency and goodput, Qiao et
al. 2021 (Pollux, OSDI'21); gain of a learning rate, Johnson et al. 2020 (AdaScale, arXiv:2007.05105); linear
rule and warm-up, Goyal et al. 2017 (arXiv:1706.02677).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import Literal

from advisor.tuners.comparing.measure import Estimate

LEVEL = 0.9  # two-sided, of intervals of the noise scale, of goodput and of a difference of losses
QUARTILE = 0.25  # of goodput, which must gain: a noise scale is known to about 40 % on some tasks
BLOCK = 8  # steps left out together by the jackknife: neighbouring ones share their parameters
MIN_BLOCKS = 4
GRID = 41  # quantiles of throughput and of noise scale that are combined
WIDEST = 20.0  # standard deviation, in logarithms, that stands for "nothing is known"
TOLERANCE = 0.02  # relative, by which a matched loss may be worse
LEAST_FALL = 2 * TOLERANCE  # of the baseline's loss: in less a candidate that learns nothing would pass
MIN_PAIRS = 4  # of losses, in the second half of the samples
POINTS = (16, 64, 256, 1024)  # losses of the larger batch that a comparison asks for: the least, and more


@dataclass(frozen=True)
class NoiseScale:
    """A gradient noise scale in samples, its interval at the two-sided ``level``, maybe without upper end."""

    estimate: float
    low: float
    high: float
    level: float = LEVEL

    def quantile(self, probability: float) -> float:
        """The noise scale that the true one is below with this probability."""
        low, estimate, high = math.log(self.low), math.log(self.estimate), math.log(self.high)
        return math.exp(_quantile(estimate, low, high, self.level, probability))


@dataclass(frozen=True)
class Unknown:
    """No number can be given, and why."""

    reason: str


@dataclass(frozen=True)
class Candidate:
    """A batch size, and its throughput over that of the present one (log ratio)."""

    batch: int
    throughput: Estimate


@dataclass(frozen=True)
class Goodput:
    """What a batch size is worth. All but ``batch`` are ratios to the present one, larger is better.

    ``estimate`` is ``throughput`` times ``efficiency``; its interval holds what is not known about both.
    """

    batch: int
    throughput: float
    efficiency: float
    estimate: float
    low: float
    high: float
    lower_quartile: float


@dataclass(frozen=True)
class LossMatch:
    """Whether a candidate's loss is as good after the same samples; ``worse_by`` is relative.

    ``undecided`` tells of an unknown verdict that more samples may decide.
    """

    verdict: Literal["ok", "worse", "unknown"]
    reason: str
    worse_by: float | None = None
    undecided: bool = False


def efficiency(batch: float, present_batch: float, noise_scale: float) -> float:
    """What one sample teaches at ``batch``, over what it teaches at ``present_batch`` (Pollux)."""
    return (noise_scale + present_batch) / (noise_scale + batch)


def goodput(throughput: float, batch: float, present_batch: float, noise_scale: float) -> float:
    """Samples per second, each counted by what it teaches: in samples of the present batch."""
    return throughput * efficiency(batch, present_batch, noise_scale)


def estimate_noise_scale(
    small: Sequence[Sequence[float]],
    large: Sequence[Sequence[float]],
    small_batch: float,
    large_batch: float,
    *,
    dataset_length: int | None = None,
    block: int = BLOCK,
    level: float = LEVEL,
) -> NoiseScale | Unknown:
    """The noise scale from squared gradient norms at two batch sizes (McCandlish et al., appendix A).

    A squared norm is, on average, that of the true gradient plus the noise of one sample over the batch
    size; two sizes tell them apart. The means of both over all steps are divided, and blocks of steps
    are left out in turn for the interval. Where the gradient is still lost in its noise, the noise scale is
    known to be large, and the interval has no upper end.

    Args:
        small: By run, the squared norms of its steps with the smaller batch.
        large: The same steps of the same runs with the larger batch.
        small_batch: Samples.
        large_batch: Samples.
        dataset_length: Items that batches are drawn from without replacement: what all of them have in
            common is gradient then, and no noise.
        block: Consecutive steps that are left out together.
        level: Two-sided, of the interval, and of the evidence that there is noise at all.
    """
    if not 0 < small_batch < large_batch:
        raise ValueError(f"{small_batch} must be a smaller batch than {large_batch}")
    blocks = _blocks(small, large, block)
    if len(blocks) < MIN_BLOCKS:
        return Unknown(f"{len(blocks)} blocks of {block} steps are too few, {MIN_BLOCKS} are needed")
    if not all(math.isfinite(value) for row in blocks for value in row):
        return Unknown("a gradient norm is NaN or infinite")

    def moments(row: Sequence[float]) -> tuple[float, float]:
        count, sum_small, sum_large = row
        at_small, at_large = sum_small / count, sum_large / count
        noise = (at_small - at_large) / (1 / small_batch - 1 / large_batch)
        gradient = (large_batch * at_large - small_batch * at_small) / (large_batch - small_batch)
        return gradient + (noise / dataset_length if dataset_length else 0.0), noise

    total = [sum(column) for column in zip(*blocks, strict=True)]
    without = [moments([whole - part for whole, part in zip(total, row, strict=True)]) for row in blocks]
    gradient, noise = moments(total)
    gradients, noises = [each for each, _ in without], [each for _, each in without]
    gradient_error = jackknife_half_width(gradients, level)
    noise_error = jackknife_half_width(noises, level)
    if noise + noise_error < 0:
        return Unknown("gradients grow with the batch, as those of a loss summed over it do")
    if min(noise - noise_error, *noises) <= 0:
        return Unknown("the gradients of both batch sizes differ too little to show their noise")
    if gradient + gradient_error <= 0:
        return Unknown(
            "gradients of the larger batch are smaller than noise that averages out would leave them"
        )
    if min(gradient - gradient_error, *gradients) <= 0:
        return _of_hidden_gradient(gradient, gradient_error, noise, noise_error, level)
    centre = math.log(noise / gradient)
    half = jackknife_half_width([math.log(each / other) for other, each in without], level)
    return NoiseScale(math.exp(centre), math.exp(centre - half), math.exp(centre + half), level)


def jackknife_half_width(without: Sequence[float], level: float) -> float:
    """Half the two-sided interval of an estimate, from those with each part left out in turn (jackknife)."""
    count = len(without)
    centre = fmean(without)
    variance = (count - 1) / count * sum((value - centre) ** 2 for value in without)
    return _t(level, count - 1) * math.sqrt(variance)


def rate(candidate: Candidate, present_batch: int, noise: NoiseScale) -> Goodput:
    """Goodput of one candidate over that of the present batch, with all that is not known about it."""
    speed = candidate.throughput
    levels = [(index + 0.5) / GRID for index in range(GRID)]
    speeds = [
        math.exp(_quantile(speed.estimate, speed.low, speed.high, speed.level, level)) for level in levels
    ]
    shares = [efficiency(candidate.batch, present_batch, noise.quantile(level)) for level in levels]
    rates = sorted(one * share for one in speeds for share in shares)

    def quantile(probability: float) -> float:
        return rates[min(len(rates) - 1, int(probability * len(rates)))]

    throughput = math.exp(speed.estimate)
    share = efficiency(candidate.batch, present_batch, noise.estimate)
    tail = (1 - LEVEL) / 2
    return Goodput(
        candidate.batch,
        throughput,
        share,
        throughput * share,
        quantile(tail),
        quantile(1 - tail),
        quantile(QUARTILE),
    )


def preferred(rated: Sequence[Goodput], min_gain: float = 0.0) -> list[Goodput]:
    """Those that gain over ``min_gain`` at the lower quartile, by their estimate, the smallest of equals.

    Whether a batch gains at all is asked cautiously. Which of those gains most is not: taking the lower
    quartile there as well leans to smaller batches and is farther from the best ones on average
    (``benchmarks/goodput.py``).
    """
    gaining = [each for each in rated if each.lower_quartile > 1 + min_gain]
    return sorted(gaining, key=lambda each: (-each.estimate, each.batch))


def choose_batch(candidates: Sequence[Candidate], present_batch: int, noise: NoiseScale) -> Goodput:
    """The preferred batch size, or the present one where no other gains."""
    present = Goodput(present_batch, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    others = [rate(each, present_batch, noise) for each in candidates if each.batch != present_batch]
    return next(iter(preferred(others)), present)


def matching_steps(baseline_batch: int, candidate_batch: int, points: int = POINTS[0]) -> tuple[int, int]:
    """Steps of baseline and candidate that see the same samples, ``points`` steps of the larger batch."""
    samples = points * max(baseline_batch, candidate_batch)
    return math.ceil(samples / baseline_batch), math.ceil(samples / candidate_batch)


def loss_matched(
    baseline_losses: Sequence[float],
    candidate_losses: Sequence[float],
    *,
    baseline_batch: int,
    candidate_batch: int,
    summed: bool = False,
    tolerance: float = TOLERANCE,
    level: float = LEVEL,
) -> LossMatch:
    """Compare losses after the same number of samples, smoothed over the second half of them.

    Each loss of the larger batch stands beside the mean of as many samples' losses of the smaller one
    around the same point, so both are equally noisy. ``ok`` and ``worse`` need the interval of the
    difference on one side of ``tolerance``.

    Args:
        baseline_losses: One per update, of a run from the start.
        candidate_losses: The same from the same start, under the candidate's batch and learning rate.
        baseline_batch: Samples per update.
        candidate_batch: Samples per update.
        summed: Losses are sums over the batch.
        tolerance: Relative difference that is accepted.
        level: Two-sided, of the interval.
    """
    if not all(map(math.isfinite, baseline_losses)):
        return LossMatch("unknown", "the baseline's own losses are not finite")
    if not all(map(math.isfinite, candidate_losses)):
        return LossMatch("worse", "a loss of the candidate is NaN or infinite")
    pairs = _pairs(baseline_losses, candidate_losses, baseline_batch, candidate_batch)
    if summed:
        pairs = [(one / baseline_batch, other / candidate_batch) for one, other in pairs]
    tail = pairs[len(pairs) // 2 :]
    if len(tail) < MIN_PAIRS:
        few = f"{len(pairs)} steps of the larger batch are too few to compare"
        return LossMatch("unknown", few, undecided=True)
    end = fmean(one for one, _ in tail)
    if end <= 0:
        return LossMatch("unknown", "the loss is not positive, so a relative difference says nothing")
    fall = pairs[0][0] / end - 1
    if fall < LEAST_FALL:
        little = f"the baseline's loss fell by {fall:.1%} only: too little to tell learning from none"
        return LossMatch("unknown", little, undecided=True)
    differences = [(other - one) / end for one, other in tail]
    worse_by = fmean(differences)
    half = _t(level, len(tail) - 1) * stdev(differences) / math.sqrt(len(tail))
    samples = int(len(pairs) * max(baseline_batch, candidate_batch))
    told = f"after {samples} samples the loss differs by {worse_by:+.1%}, give or take {half:.1%}"
    if worse_by + half <= tolerance:
        return LossMatch("ok", told, worse_by)
    if worse_by - half > tolerance:
        return LossMatch("worse", told, worse_by)
    return LossMatch("unknown", f"{told}: too noisy for a bound of {tolerance:.0%}", worse_by, undecided=True)


def _of_hidden_gradient(
    gradient: float, gradient_error: float, noise: float, noise_error: float, level: float
) -> NoiseScale:
    """The noise scale where the squared gradient is not told from zero: it has no upper end.

    The squared gradient is taken for normally distributed about its estimate and above zero (a flat prior);
    both errors are half-widths at ``level``.
    """
    normal = NormalDist()
    spread = gradient_error / normal.inv_cdf(0.5 + level / 2)
    below = normal.cdf(-gradient / spread)

    def quantile(probability: float) -> float:
        return gradient + spread * normal.inv_cdf(below + probability * (1 - below))

    low = (noise - noise_error) / quantile(0.5 + level / 2)
    return NoiseScale(noise / quantile(0.5), low, math.inf, level)


def _blocks(
    small: Sequence[Sequence[float]], large: Sequence[Sequence[float]], block: int
) -> list[tuple[float, float, float]]:
    """Steps and sums of both sizes by block; what is left of a run belongs to its last block."""
    rows = []
    for one, other in zip(small, large, strict=True):
        steps = min(len(one), len(other))
        if steps < block:
            continue
        starts = [index * block for index in range(steps // block)]
        for start, end in zip(starts, [*starts[1:], steps], strict=True):
            rows.append((float(end - start), sum(one[start:end]), sum(other[start:end])))
    return rows


def _t(level: float, freedom: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + level / 2))


def _quantile(estimate: float, low: float, high: float, level: float, probability: float) -> float:
    """Of a normal distribution with a spread of its own on either side, from an interval at ``level``."""
    z = NormalDist().inv_cdf(probability)
    half = estimate - low if z < 0 else high - estimate
    return estimate + min(half / NormalDist().inv_cdf(0.5 + level / 2), WIDEST) * z


def _pairs(
    baseline: Sequence[float], candidate: Sequence[float], baseline_batch: int, candidate_batch: int
) -> list[tuple[float, float]]:
    wider = max(baseline_batch, candidate_batch)
    samples = min(len(baseline) * baseline_batch, len(candidate) * candidate_batch)
    return [
        (
            _around(baseline, baseline_batch, index * wider, wider),
            _around(candidate, candidate_batch, index * wider, wider),
        )
        for index in range(samples // wider)
    ]


def _around(losses: Sequence[float], batch: int, centre: int, width: int) -> float:
    """Mean of the losses computed when ``centre`` samples, give or take half of ``width``, had been seen."""
    first = max(0, math.ceil((centre - width / 2) / batch))
    last = max(first + 1, math.ceil((centre + width / 2) / batch))
    return fmean(losses[first:last])
