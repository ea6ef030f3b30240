from pathlib import Path

import pytest
import torch

from advisor.profiles.derived.ceilings import measure_rates, storage_rate
from advisor.profiles.facts.machine import cache_sizes


@pytest.mark.alone
def test_rates_are_those_of_a_machine_that_works() -> None:
    rates = measure_rates(limit_s=8.0)
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
