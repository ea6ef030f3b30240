"""Goodput: the noise scale from gradient norms, the batch size that it speaks for, and matched losses."""

import math

import numpy
import pytest

from advisor.tuners.comparing.batches.goodput import (
    Candidate,
    LossMatch,
    NoiseScale,
    Unknown,
    choose_batch,
    efficiency,
    estimate_noise_scale,
    goodput,
    loss_matched,
    matching_steps,
    rate,
)
from advisor.tuners.comparing.measure import Estimate

SMALL, LARGE = 32, 128
DIMENSIONS = 50
KNOWN = NoiseScale(500.0, 500.0, 500.0)


def squared_norms(
    batch: int, steps: int, *, gradient: float = 1.0, noise: float = 200.0, seed: int = 0
) -> list[float]:
    """Of gradients that are a fixed one plus the mean of ``batch`` samples' noise."""
    generator = numpy.random.default_rng([seed, batch])
    fixed = math.sqrt(gradient / DIMENSIONS)
    spread = math.sqrt(noise / DIMENSIONS / batch)
    drawn = fixed + spread * generator.standard_normal((steps, DIMENSIONS))
    return [float(value) for value in (drawn**2).sum(axis=1)]


def an_estimate(
    steps: int = 64, *, gradient: float = 1.0, noise: float = 200.0, seed: int = 0
) -> NoiseScale | Unknown:
    small, large = (
        squared_norms(batch, steps, gradient=gradient, noise=noise, seed=seed) for batch in (SMALL, LARGE)
    )
    return estimate_noise_scale([small], [large], SMALL, LARGE)


def a_throughput(ratio: float, error: float = 0.0) -> Estimate:
    centre = math.log(ratio)
    return Estimate(centre, centre - error, centre + error, 0.9, 20, 1)


def test_at_the_noise_scale_a_sample_teaches_half_of_what_it_teaches_in_tiny_batches() -> None:
    assert efficiency(500, 0, 500) == 0.5
    assert efficiency(64, 64, 500) == 1
    assert efficiency(32, 64, 500) > 1
    assert goodput(1000.0, 500, 0, 500) == 500


def test_a_known_noise_scale_lies_within_the_interval_as_often_as_it_says() -> None:
    hits = 0
    for seed in range(200):
        found = an_estimate(seed=seed)
        assert isinstance(found, NoiseScale)
        hits += found.low <= 200 <= found.high
    assert 168 <= hits <= 194  # 84 to 97 % of 200 at a nominal 90 %


def test_more_steps_give_a_narrower_interval() -> None:
    few, many = an_estimate(64), an_estimate(1024)
    assert isinstance(few, NoiseScale) and isinstance(many, NoiseScale)
    assert math.log(many.high / many.low) < math.log(few.high / few.low) / 2


@pytest.mark.parametrize(
    ("steps", "gradient", "noise", "reason"),
    [
        (64, 1.0, 0.0, "differ too little"),
        (20, 1.0, 200.0, "2 blocks of 8 steps are too few"),
    ],
)
def test_what_is_not_resolved_is_no_number(steps: int, gradient: float, noise: float, reason: str) -> None:
    found = an_estimate(steps, gradient=gradient, noise=noise)
    assert isinstance(found, Unknown) and reason in found.reason


@pytest.mark.parametrize("noise", [3000.0, 10_000.0, 1_000_000.0])
def test_a_gradient_that_is_lost_in_its_noise_leaves_a_lower_end(noise: float) -> None:
    found = [an_estimate(noise=noise, seed=seed) for seed in range(100)]
    known = [each for each in found if isinstance(each, NoiseScale)]
    hidden = [each for each in known if math.isinf(each.high)]
    assert len(known) >= 90 and len(hidden) >= (10 if noise == 3000 else 60)
    assert sum(each.low <= noise for each in known) >= 0.93 * len(known)
    assert all(100 < each.low < each.estimate for each in hidden)
    assert all(each.quantile(0.25) < each.estimate < each.quantile(0.75) < math.inf for each in hidden)


def test_a_lower_end_alone_can_speak_for_a_larger_batch() -> None:
    candidates = [Candidate(128, a_throughput(1.8)), Candidate(4096, a_throughput(3.0))]
    assert choose_batch(candidates, 64, NoiseScale(1000, 500, math.inf)).batch == 128
    found = rate(candidates[0], 64, NoiseScale(1000, 500, math.inf))
    assert found.lower_quartile < found.estimate < found.high <= 1.8


def test_norms_that_fall_faster_than_noise_does_are_no_gradient() -> None:
    falling = estimate_noise_scale([squared_norms(SMALL, 64)], [[0.001] * 64], SMALL, LARGE)
    assert isinstance(falling, Unknown) and "smaller than noise" in falling.reason


def test_gradients_that_grow_with_the_batch_give_a_reason_and_no_number() -> None:
    small, large = squared_norms(SMALL, 64), squared_norms(LARGE, 64)
    summed = [value * 16 for value in large]  # a sum over four times as many samples
    found = estimate_noise_scale([small], [summed], SMALL, LARGE)
    assert isinstance(found, Unknown) and "summed" in found.reason


def test_one_infinite_norm_leaves_no_estimate() -> None:
    small, large = squared_norms(SMALL, 64), squared_norms(LARGE, 64)
    found = estimate_noise_scale([[math.inf, *small[1:]]], [large], SMALL, LARGE)
    assert isinstance(found, Unknown) and "infinite" in found.reason


def test_runs_are_taken_together_and_a_short_one_adds_nothing() -> None:
    small, large = squared_norms(SMALL, 64), squared_norms(LARGE, 64)
    whole = estimate_noise_scale([small], [large], SMALL, LARGE)
    halves = estimate_noise_scale([small[:32], small[32:]], [large[:32], large[32:]], SMALL, LARGE)
    with_rest = estimate_noise_scale([small, small[:5]], [large, large[:5]], SMALL, LARGE)
    assert whole == halves == with_rest


def test_batches_from_a_small_dataset_share_some_of_their_noise() -> None:
    gradient, noise, length = 2.0, 300.0, 1000
    small = [gradient + noise * (1 / SMALL - 1 / length)] * 64
    large = [gradient + noise * (1 / LARGE - 1 / length)] * 64
    found = estimate_noise_scale([small], [large], SMALL, LARGE, dataset_length=length)
    blind = estimate_noise_scale([small], [large], SMALL, LARGE)
    assert isinstance(found, NoiseScale) and isinstance(blind, NoiseScale)
    assert found.estimate == pytest.approx(150)
    assert blind.estimate == pytest.approx(300 / 1.7)


def test_a_smaller_batch_must_be_smaller() -> None:
    with pytest.raises(ValueError, match="must be a smaller batch"):
        estimate_noise_scale([[1.0]], [[1.0]], 64, 64)


def test_what_is_known_exactly_has_an_interval_without_width() -> None:
    found = rate(Candidate(256, a_throughput(3.0)), 64, KNOWN)
    expected = goodput(3.0, 256, 64, 500)
    assert found.estimate == pytest.approx(expected)
    assert found.low == found.high == found.lower_quartile == pytest.approx(expected)


def test_throughput_that_stops_growing_is_not_followed() -> None:
    candidates = [Candidate(128, a_throughput(1.9)), Candidate(512, a_throughput(2.0))]
    assert choose_batch(candidates, 64, KNOWN).batch == 128


def test_the_largest_batch_is_chosen_where_it_costs_nothing_to_learn() -> None:
    candidates = [Candidate(128, a_throughput(1.9)), Candidate(512, a_throughput(2.4))]
    assert choose_batch(candidates, 64, NoiseScale(1e6, 5e5, 2e6)).batch == 512


def test_a_noise_scale_that_is_hardly_known_speaks_for_the_smaller_batch() -> None:
    candidates = [Candidate(256, a_throughput(1.5))]
    assert choose_batch(candidates, 64, KNOWN).batch == 256
    assert choose_batch(candidates, 64, NoiseScale(500, 50, 5000)).batch == 64


def test_among_those_that_gain_the_estimate_decides() -> None:
    candidates = [Candidate(128, a_throughput(1.5)), Candidate(512, a_throughput(2.5, 0.15))]
    noise = NoiseScale(500, 300, 800)
    smaller, larger = (rate(each, 64, noise) for each in candidates)
    assert 1 < larger.lower_quartile < smaller.lower_quartile < smaller.estimate < larger.estimate
    assert choose_batch(candidates, 64, noise).batch == 512


def test_throughput_that_is_hardly_known_is_not_followed() -> None:
    assert choose_batch([Candidate(128, a_throughput(1.3, 0.02))], 64, KNOWN).batch == 128
    assert choose_batch([Candidate(128, a_throughput(1.3, 0.6))], 64, KNOWN).batch == 64
    assert choose_batch([Candidate(128, a_throughput(1.3, math.inf))], 64, KNOWN).batch == 64


def test_the_quartile_lies_between_the_ends_of_the_interval() -> None:
    found = rate(Candidate(256, a_throughput(3.0, 0.1)), 64, NoiseScale(500, 300, 900))
    assert found.low < found.lower_quartile < found.estimate < found.high


def test_without_a_better_candidate_the_present_batch_is_the_answer() -> None:
    found = choose_batch([Candidate(128, a_throughput(1.0))], 64, KNOWN)
    assert (found.batch, found.lower_quartile) == (64, 1.0)


def losses(
    batch: int, steps: int, *, pace: float = 1.0, floor: float = 0.5, fall: float = 2.0, noise: float = 0.0
) -> list[float]:
    """A loss that falls with the samples seen, ``pace`` times as fast."""
    generator = numpy.random.default_rng(batch)
    draws = generator.standard_normal(steps) * noise / math.sqrt(batch)
    return [
        floor + fall * math.exp(-pace * step * batch / 2000) + float(draws[step]) for step in range(steps)
    ]


def matched(candidate: list[float], batch: int = LARGE, **options: float) -> LossMatch:
    steps, _ = matching_steps(SMALL, batch)
    return loss_matched(
        losses(SMALL, steps, **options), candidate, baseline_batch=SMALL, candidate_batch=batch
    )


@pytest.mark.parametrize("batch", [8, 16, 32, 48, 128, 512])
def test_the_same_progress_per_sample_is_matched_at_every_batch_size(batch: int) -> None:
    steps, other = matching_steps(SMALL, batch)
    assert steps * SMALL >= 16 * batch and other * batch >= 16 * SMALL
    found = loss_matched(
        losses(SMALL, steps, noise=0.02, fall=1.0),
        losses(batch, other, noise=0.02, fall=1.0),
        baseline_batch=SMALL,
        candidate_batch=batch,
    )
    assert found.verdict == "ok"
    assert found.worse_by is not None and abs(found.worse_by) < 0.01


def test_the_same_loss_is_ok() -> None:
    found = matched(losses(LARGE, 16))
    assert found.verdict == "ok"
    assert found.worse_by is not None and abs(found.worse_by) < 0.01
    assert "after 2048 samples" in found.reason


def test_a_faster_candidate_is_ok_and_a_slower_one_is_worse() -> None:
    assert matched(losses(LARGE, 16, pace=2)).verdict == "ok"
    found = matched(losses(LARGE, 16, pace=0.5))
    assert found.verdict == "worse"
    assert found.worse_by is not None and found.worse_by > 0.2


def test_a_candidate_that_goes_on_longer_is_judged_at_the_same_samples() -> None:
    assert matched(losses(LARGE, 400, pace=0.5)).verdict == "worse"


def test_a_loss_that_does_not_fall_tells_nothing() -> None:
    found = matched(losses(LARGE, 16, fall=0.01), fall=0.01)
    assert found.verdict == "unknown" and "too little to tell learning from none" in found.reason


def test_noisy_losses_are_not_told_apart() -> None:
    found = matched(losses(LARGE, 16, noise=20.0, fall=8.0), noise=20.0, fall=8.0)
    assert found.verdict == "unknown" and "too noisy" in found.reason


def test_few_steps_are_too_few() -> None:
    found = matched(losses(LARGE, 6))
    assert found.verdict == "unknown" and "6 steps of the larger batch" in found.reason


def test_a_candidate_that_diverges_is_worse_and_a_baseline_that_does_is_no_yardstick() -> None:
    broken = [*losses(LARGE, 15), math.nan]
    assert matched(broken).verdict == "worse"
    assert loss_matched(broken, broken, baseline_batch=LARGE, candidate_batch=LARGE).verdict == "unknown"


def test_losses_that_can_be_negative_are_not_compared_relatively() -> None:
    found = matched(losses(LARGE, 16, floor=-2.0), floor=-2.0)
    assert found.verdict == "unknown" and "not positive" in found.reason


def test_summed_losses_are_compared_per_sample() -> None:
    steps, other = matching_steps(SMALL, LARGE)
    found = loss_matched(
        [SMALL * loss for loss in losses(SMALL, steps)],
        [LARGE * loss for loss in losses(LARGE, other)],
        baseline_batch=SMALL,
        candidate_batch=LARGE,
        summed=True,
    )
    assert found.verdict == "ok"
