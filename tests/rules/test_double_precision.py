from pathlib import Path

import torch
from builders import a_gpu_profile, a_rich_profile, a_root, a_window, an_op

from advisor.advice.finding import Kind, Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.recorded import Window
from advisor.profiles.hooks.recorder import Recorder
from advisor.profiles.traces.ops import window_of
from advisor.profiles.traces.reading import read_trace
from advisor.rules.double_precision import DoublePrecision

LINE = Location("data.py", 12)


def a_window_with(double_ms: float, phase: str = "forward") -> Window:
    double = an_op("aten::mul", double_ms, dtype="float64", location=LINE, phase=phase)
    return a_window(double, an_op("aten::mm", 10.0 - double_ms))


def test_float64_operators_are_reported_where_they_run() -> None:
    finding = DoublePrecision().check(a_rich_profile(window=a_window_with(4.0)))
    assert finding.state is State.OPPORTUNITY and finding.kind is Kind.WASTE
    assert finding.severity is Severity.MEDIUM
    assert finding.title == "40 % of compute works on float64"
    assert finding.ceiling is not None and finding.ceiling.share == 0.2, "twice the bytes, twice the time"
    assert finding.location == LINE
    assert "data.py:12" in finding.advice and "dtype=torch.float32" in finding.advice


def test_measured_rates_say_how_much_slower_float64_is() -> None:
    rates = Rates(matmul=(("float32", 64e12), ("float64", 1e12)))
    finding = DoublePrecision().check(a_gpu_profile(window=a_window_with(4.0), rates=rates))
    assert finding.ceiling is not None and round(finding.ceiling.share, 3) == 0.394


def test_float64_that_costs_next_to_nothing_passes_with_its_share() -> None:
    finding = DoublePrecision().check(a_rich_profile(window=a_window_with(0.5)))
    assert finding.state is State.PASSED and finding.title.startswith("5.0 %")
    assert DoublePrecision().check(a_rich_profile(window=a_window_with(0.6))).severity is Severity.LOW


def test_a_measured_zero_passes() -> None:
    finding = DoublePrecision().check(a_rich_profile(window=a_window(an_op())))
    assert finding.state is State.PASSED and finding.title.startswith("0.0 %")


def test_a_model_that_was_made_float64_on_purpose_is_headroom() -> None:
    profile = a_rich_profile(window=a_window_with(9.0), roots=(a_root(dtypes=("torch.float64",)),))
    finding = DoublePrecision().check(profile)
    assert finding.kind is Kind.HEADROOM and "model.float()" in finding.advice


def test_float64_in_the_loader_is_not_compute() -> None:
    assert DoublePrecision().check(a_rich_profile(window=a_window_with(4.0, "loader"))).state is State.PASSED


def test_single_numbers_that_the_optimizer_passes_do_not_count() -> None:
    numbers = an_op("aten::_to_copy", 4.0, dtype="float64", phase="optimizer", shapes=((), (), ()))
    finding = DoublePrecision().check(a_rich_profile(window=a_window(numbers, an_op("aten::mm", 6.0))))
    assert finding.state is State.PASSED and finding.title.startswith("0.0 %")


def test_one_float64_tensor_among_the_inputs_is_enough() -> None:
    mixed = an_op("aten::mul", 4.0, shapes=((8, 1), (8,)), dtypes=("float32", "float64"))
    finding = DoublePrecision().check(a_rich_profile(window=a_window(mixed, an_op("aten::mm", 6.0))))
    assert finding.title == "40 % of compute works on float64"


def test_a_number_among_the_inputs_is_not() -> None:
    scaled = an_op("aten::mul", 4.0, shapes=((8, 1), ()), dtypes=("float32", "float64"))
    finding = DoublePrecision().check(a_rich_profile(window=a_window(scaled, an_op("aten::mm", 6.0))))
    assert finding.state is State.PASSED


def test_lists_of_tensors_whose_types_are_not_told_raise_the_upper_end_alone() -> None:
    double = an_op("aten::sin", 2.0, shapes=((8, 8),), dtypes=("float64",), dtype="float64")
    listed = an_op("aten::cat", 3.0, shapes=((8, 8), (8, 8), ()), dtypes=(None, None, None), dtype=None)
    rest = an_op("aten::mm", 5.0)
    finding = DoublePrecision().check(a_rich_profile(window=a_window(double, listed, rest)))
    assert finding.ceiling is not None
    assert (finding.ceiling.share, finding.ceiling.high) == (0.1, 0.5)
    assert finding.evidence["untold_ms"] == 3.0


def test_lists_alone_are_no_finding_nor_those_of_float32_parameters() -> None:
    listed = an_op("aten::cat", 5.0, shapes=((8, 8), (8, 8)), dtypes=(None, None), dtype=None)
    assert DoublePrecision().check(a_rich_profile(window=a_window(listed))).state is State.PASSED
    double = an_op("aten::sin", 5.0, dtype="float64")
    updating = an_op(
        "aten::_foreach_add_", 5.0, phase="optimizer", shapes=((8, 8),), dtypes=(None,), dtype=None
    )
    finding = DoublePrecision().check(a_rich_profile(window=a_window(double, updating)))
    assert finding.ceiling is not None and finding.ceiling.high == 0.5


def test_a_recording_tells_what_meets_float64_frequencies(tmp_path: Path) -> None:
    frequencies = torch.linspace(1, 64, 32, dtype=torch.float64)
    recorder = Recorder(tmp_path / "trace.json")
    recorder.start()
    for _ in range(3):
        recorder.enter("forward")
        angles = torch.rand(64, 1) * frequencies
        torch.cat([angles.sin(), angles.cos()], dim=-1).float()
        recorder.leave()
        recorder.step()
    recorder.stop()
    window = window_of(read_trace(tmp_path / "trace.json"), clean_step_ms=None)
    ops = {op.name: op for op in window.ops}
    assert ops["aten::mul"].dtypes[:2] == ("float32", "float64")
    assert ops["aten::cat"].shapes[:2] == ((64, 32), (64, 32)) and not any(ops["aten::cat"].dtypes)
    copies = {op.dtypes[:2] for op in window.ops if op.name == "aten::copy_"}
    assert copies == {("float32", "float64"), ("float64", "float32")}  # the result, and what meets float64
