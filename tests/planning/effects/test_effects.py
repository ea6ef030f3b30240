"""Overlap, waiting, ceilings of a node and failures against cases worked by hand."""

import math

import pytest

from advisor.planning.effects.failures import GPU_HOURS_BETWEEN_STOPS, best_interval_s, stretched
from advisor.planning.effects.loading import Supply, loading_s
from advisor.planning.effects.overlap import contention_s, exposed_s
from advisor.planning.effects.waiting import heavy_tailed_s, light_tailed_s


def test_what_fits_under_backward_leaves_its_last_bucket() -> None:
    assert exposed_s(10, 20, buckets=5) == 2


def test_what_does_not_fit_sticks_out() -> None:
    assert exposed_s(30, 20, buckets=5) == 16


def test_no_more_sticks_out_than_there_is() -> None:
    assert exposed_s(10, 0, buckets=2) == 10


def test_without_buckets_there_is_no_answer() -> None:
    with pytest.raises(ValueError, match="at least one bucket"):
        exposed_s(10, 20, buckets=0)


def test_computing_is_slowed_while_both_run() -> None:
    assert contention_s(10, 100) == pytest.approx(1.3)


def test_the_slowest_of_many_is_later_than_the_mean() -> None:
    assert light_tailed_s(1, 1) == heavy_tailed_s(1, 1) == 0
    assert light_tailed_s(2, 8) == pytest.approx(2 * math.sqrt(2 * math.log(8)))
    assert heavy_tailed_s(1, 64) == pytest.approx(6 * math.log(2))


def test_the_slower_of_cpus_and_storage_is_the_ceiling() -> None:
    assert loading_s(800, 0.01, 16, 1e5, 1e9) == pytest.approx(0.5)  # 8 s of CPU over 16 cores
    assert loading_s(800, 0.01, 16, 1e6, 1e9) == pytest.approx(0.8)  # 0.8 GB at 1 GB/s


def test_the_best_interval_between_saves() -> None:
    assert best_interval_s(60, 10_800) == pytest.approx(math.sqrt(2 * 60 * 10_800))


def test_failures_stretch_a_large_run_and_hardly_a_small_one() -> None:
    assert stretched(60, 600, 8, GPU_HOURS_BETWEEN_STOPS) < 1.01
    assert stretched(60, 600, 16_384, GPU_HOURS_BETWEEN_STOPS) > 1.1


def test_steps_that_were_shorter_bound_what_a_sample_takes() -> None:
    supply = Supply(cpu_s=0.01, cpus=4, read_bytes=1e6, bytes_per_s=1e8)
    assert supply.preparing_ms(32) == pytest.approx(80)
    assert supply.reading_ms(32) == pytest.approx(320)
    seen = supply.within([(32, 40), (64, 400)])
    assert seen.preparing_ms(64) == pytest.approx(80)
    assert seen.reading_ms(64) == pytest.approx(80)  # the rest came from a cache
