"""Devices by the names that drivers give them, and what their data sheets say."""

import pytest

from advisor.profiles.facts.data_sheets import DATA_SHEETS, FLOAT8, GIB, TYPES, DataSheet, data_sheet
from advisor.profiles.facts.machine import Gpu


def a_gpu(name: str, memory_gib: float, capability: tuple[int, int] = (8, 0)) -> Gpu:
    return Gpu(name, "", int(memory_gib * GIB), capability)


@pytest.mark.parametrize(
    ("name", "memory_gib", "sheet"),
    [
        ("NVIDIA H100 80GB HBM3", 79.2, "NVIDIA H100 SXM"),
        ("NVIDIA H100 PCIe", 79.1, "NVIDIA H100 PCIe"),
        ("NVIDIA H100 NVL", 93.1, "NVIDIA H100 NVL"),
        ("NVIDIA H800", 79.1, "NVIDIA H800 SXM"),
        ("NVIDIA H200", 139.8, "NVIDIA H200 SXM"),
        ("NVIDIA GH200 480GB", 94.5, "NVIDIA GH200 96GB"),
        ("NVIDIA B200", 178.4, "NVIDIA B200"),
        ("NVIDIA GB200", 184.0, "NVIDIA GB200"),
        ("NVIDIA GB300", 277.5, "NVIDIA GB300"),
        ("NVIDIA A100-SXM4-80GB", 79.3, "NVIDIA A100 80GB SXM"),
        ("NVIDIA A100 80GB PCIe", 79.3, "NVIDIA A100 80GB PCIe"),
        ("NVIDIA A100-SXM4-40GB", 39.6, "NVIDIA A100 40GB"),
        ("NVIDIA A100-PCIE-40GB", 39.6, "NVIDIA A100 40GB"),
        ("NVIDIA A100-PG509-200", 39.6, "NVIDIA A100 40GB"),
        ("NVIDIA A10", 22.5, "NVIDIA A10"),
        ("NVIDIA A10G", 22.5, "NVIDIA A10G"),
        ("NVIDIA L4", 22.2, "NVIDIA L4"),
        ("NVIDIA L40S", 44.5, "NVIDIA L40S"),
        ("NVIDIA RTX 6000 Ada Generation", 47.5, "NVIDIA RTX 6000 Ada"),
        ("NVIDIA GeForce RTX 4090", 23.6, "NVIDIA GeForce RTX 4090"),
        ("Tesla T4", 14.6, "NVIDIA T4"),
        ("Tesla V100-SXM2-16GB", 15.8, "NVIDIA V100 SXM2"),
        ("AMD Instinct MI300X VF", 191.5, "AMD Instinct MI300X"),
        ("AMD Instinct MI250X/MI250", 64.0, "AMD Instinct MI250X"),
        ("AMD Instinct MI355X", 287.98, "AMD Instinct MI355X"),
        ("Intel(R) Data Center GPU Max 1550", 128, "Intel Data Center GPU Max 1550"),
        ("Intel(R) Data Center GPU Max 1550", 64, "Intel Data Center GPU Max 1550, one stack"),
    ],
)
def test_a_device_is_found_by_the_name_of_its_driver(name: str, memory_gib: float, sheet: str) -> None:
    found = data_sheet(a_gpu(name, memory_gib))
    assert found is not None and found.name == sheet


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA H20",
        "NVIDIA H800 PCIe",
        "NVIDIA GeForce RTX 4090 D",
        "Quadro P400",
        "Intel(R) Data Center GPU Max 1100",
        "Tesla V100S-PCIE-32GB",
        "an unknown one",
    ],
)
def test_a_device_without_a_data_sheet_here_is_not_taken_for_another(name: str) -> None:
    assert data_sheet(a_gpu(name, 24)) is None


def test_a_device_without_a_name_is_told_by_what_only_one_has() -> None:
    found = data_sheet(a_gpu("", 191.98, (9, 4)))
    assert found is not None and found.name == "AMD Instinct MI300X"
    assert data_sheet(a_gpu("", 79.2, (8, 0))) is None, "two boards of this memory exist"
    assert data_sheet(a_gpu("", 0, (0, 0))) is None


@pytest.mark.parametrize("sheet", DATA_SHEETS, ids=lambda sheet: sheet.name)
def test_every_data_sheet_is_whole_and_found_by_its_own_name(sheet: DataSheet) -> None:
    assert len(sheet.tflops) == len(TYPES) and sheet.source.startswith("https://")
    known = dict(zip(TYPES, sheet.tflops, strict=True))
    assert known["float32"] and known["float16"]
    ordered = [known[name] or 0 for name in ("float32", "float32_medium", "bfloat16", "float8")]
    told = [rate for rate in ordered if rate]
    assert told == sorted(told), "fewer bits are never slower"
    assert data_sheet(a_gpu(sheet.name, 0.97 * sheet.memory_gib, sheet.capability)) == sheet


@pytest.mark.parametrize("sheet", DATA_SHEETS, ids=lambda sheet: sheet.name)
def test_a_matrix_unit_halves_its_rate_where_the_type_is_twice_as_wide(sheet: DataSheet) -> None:
    """A rate with sparsity, or of sums in float16, among the others would be twice what it is taken for."""
    known = dict(zip(TYPES, sheet.tflops, strict=True))
    for narrow, wide in (("float8", "float16"), ("float16", "float32_medium")):
        fast, slow = known[narrow], known[wide]
        if fast and slow:
            assert fast / slow == pytest.approx(2, rel=0.03)


def test_rates_are_those_of_the_sheet_in_units_of_one() -> None:
    h100 = data_sheet(a_gpu("NVIDIA H100 80GB HBM3", 79.2))
    assert h100 is not None
    rates = h100.rates()
    assert rates.flops("bfloat16") == pytest.approx(989.4e12)
    assert rates.flops("float32_medium") == pytest.approx(494.7e12)
    assert rates.memory_sequential == pytest.approx(3.35e12) and rates.link == pytest.approx(450e9)
    assert {rates.flops(name) for name in FLOAT8} == {1978.9e12}
    assert rates.source == "data sheet of the NVIDIA H100 SXM"
    t4 = data_sheet(a_gpu("Tesla T4", 14.6))
    assert t4 is not None and t4.rates().flops("bfloat16") is None
