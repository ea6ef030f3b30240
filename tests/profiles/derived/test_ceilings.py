import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from advisor.profiles.derived import ceilings
from advisor.profiles.derived.ceilings import measure_rates, storage_rate
from advisor.profiles.facts.machine import cache_sizes


@pytest.mark.alone
def test_rates_are_those_of_a_machine_that_works() -> None:
    rates = measure_rates(limit_s=60.0)
    assert {"float32", "float32_medium", "bfloat16", "float64"} <= dict(rates.matmul).keys()
    double, single = rates.flops("float64"), rates.flops("float32")
    assert double is not None and single is not None and double < single
    assert rates.memory_sequential is not None and rates.memory_random is not None
    assert rates.memory_random < rates.memory_sequential
    assert rates.dispatch_us is not None and 0.05 < rates.dispatch_us < 100
    assert rates.threads == torch.get_num_threads()


def test_measuring_leaves_the_precision_as_it_was() -> None:
    torch.set_float32_matmul_precision("high")
    try:
        measure_rates(limit_s=0.5)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_without_time_only_the_first_figures_are_taken() -> None:
    rates = measure_rates(limit_s=0.0)
    assert rates.matmul == () and rates.storage_read is None


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock on which each piece of work takes ten seconds; what it took, one by one."""
    took: list[float] = []

    def seconds(work: Callable[[], object]) -> float:
        took.append(10.0)
        return took[-1]

    monkeypatch.setattr(ceilings, "_seconds", seconds)
    monkeypatch.setattr(time, "monotonic", lambda: sum(took))
    return took


def test_what_would_take_longer_than_the_limit_is_neither_begun_nor_repeated(slow: list[float]) -> None:
    rates = measure_rates(limit_s=4.0)
    assert (
        [name for name, _ in rates.matmul] == ["float32", "float32_medium"]
        and rates.memory_random is None
        and rates.storage_read is None
    )
    assert len(slow) <= 4, "two small products, one copy, the smallest operators"


def test_what_takes_long_is_repeated_only_while_there_is_time(slow: list[float]) -> None:
    assert ceilings._best(lambda: None, 5, until=25.0) == 10.0
    assert len(slow) == 3


def test_storage_that_takes_long_is_read_as_far_as_there_is_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: written.append(file))
    monkeypatch.setattr(time, "monotonic", lambda: float(len(written)))
    rate = storage_rate(str(tmp_path), until=2.5)
    assert rate is not None and rate > 0 and len(written) == 3


def test_cache_sizes_are_read_by_level(tmp_path: Path) -> None:
    for number, (kind, level, size) in enumerate(
        (("Data", 1, "32K"), ("Instruction", 1, "32K"), ("Unified", 2, "1024K"))
    ):
        index = tmp_path / f"index{number}"
        index.mkdir()
        for name, value in (("type", kind), ("level", level), ("size", size)):
            (index / name).write_text(f"{value}\n")
    assert cache_sizes(tmp_path) == (("L1", 32 * 1024), ("L2", 1024 * 1024))


def test_storage_is_read_and_the_file_is_gone(tmp_path: Path) -> None:
    rate = storage_rate(str(tmp_path))
    assert rate is not None and rate > 1e6
    assert list(tmp_path.iterdir()) == []
