"""Traces of real GPUs, beside what TraceLens and Holistic Trace Analysis say of them."""

import gzip
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from shared_data import shared

from advisor.profiles.facts.recorded import DeviceFacts, DeviceTime
from advisor.profiles.traces.ops import window_of
from advisor.profiles.traces.reading import read_trace
from advisor.result.document import ProfileData
from advisor.runs.profile_traces import profile_traces

FOLDER = Path(__file__).parent / "gpu"
EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text())
NAMES = {
    "h100_bert": "h100_gaunernst_bert-small-uncased__1016001.json.gz",
    "mi300_bert": "mi300_gaunernst_bert-small-uncased__1016001.json.gz",
    "h100_vit": "h100_Falconsai_nsfw_image_detection__1016002.json.gz",
    "mi300_vit": "mi300_Falconsai_nsfw_image_detection__1016002.json.gz",
    "vllm": "inference_vllm_prefilldecode_piecewise_graph_execution.json.gz",
    "sglang": "inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz",
    "norms": "perf_model_normalization_normalization_layer_test.json.gz",
    "compiled": "torch_compile_triton_trace.json.gz",
}
TIMES = {
    "computation_time": "computing", "exposed_comm_time": "exposed_communication",
    "exposed_memcpy_time": "exposed_copies", "idle_time": "idle", "total_time": "total",
}  # fmt: skip
KINDS = {
    "GEMM": "gemm", "CONV_fwd": "convolution", "NORM_fwd": "normalization", "NORM_bwd": "normalization",
    "RMSNorm": "normalization", "elementwise": "elementwise", "reduce": "reduction", "triton": "triton",
    "InferenceAttention": "attention",
}  # fmt: skip
"""Their names of what kernels do, and ours. Their ``other`` holds attention, copies and what nobody knows."""

MEMSETS_MS = 0.0266  # of "norms", in no figure of their report of it; that of "h100_vit" counts its memsets
WITHOUT_MEMSETS = {("norms", "computing"), ("norms", "reduction")}
ONLY_SOME_KERNELS = {
    ("vllm", "gemm"): "products in a graph are in none of their kinds, nor the experts' own in Triton",
    ("vllm", "elementwise"): "theirs are copies between host and device, without the rotary embedding",
    ("sglang", "gemm"): "products under aiter::gemm_a16w16 are in none of their kinds, though in their list",
    ("sglang", "elementwise"): "copies of tensors, silu_and_mul and the rotary embedding are not in theirs",
    ("sglang", "reduction"): "argmax over the vocabulary is not in theirs",
}  # fmt: skip
"""Kinds of which their report leaves kernels out, as its own list of products or sum of kinds shows."""

IN_A_GRAPH = {(5120, 2880), (2880, 4096), (32, 2880)}  # n, k: sizes that only the capture's trace tells


@cache
def device(name: str) -> DeviceFacts:
    window = window_of(read_trace(FOLDER / NAMES[name]), clean_step_ms=None)
    assert window.device is not None and window.steps == 1
    return window.device


def time(name: str) -> DeviceTime:
    found = device(name).time
    assert found is not None
    return found


def their_kinds(name: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind, ms in EXPECTED[NAMES[name]]["kernel_ms_by_category"].items():
        if kind in KINDS:
            found[KINDS[kind]] = found.get(KINDS[kind], 0.0) + ms
    return found


@pytest.mark.parametrize("theirs", TIMES)
@pytest.mark.parametrize("name", NAMES)
def test_what_the_device_did_is_what_tracelens_says(name: str, theirs: str) -> None:
    expected = EXPECTED[NAMES[name]]["gpu_timeline_ms"][theirs]
    if (name, TIMES[theirs]) in WITHOUT_MEMSETS:
        expected += MEMSETS_MS
    assert getattr(time(name), f"{TIMES[theirs]}_ms") == pytest.approx(expected, rel=0.01, abs=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_idle_time_is_divided_without_rest(name: str) -> None:
    assert sum(ms for _, ms in time(name).idle) == pytest.approx(time(name).idle_ms, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_kernels_of_a_kind_take_what_tracelens_says(name: str) -> None:
    ours = dict(device(name).kernels_ms)
    expected = their_kinds(name)
    same = [kind for kind in expected if (name, kind) not in {*ONLY_SOME_KERNELS, *WITHOUT_MEMSETS}]
    assert {kind: ours[kind] for kind in same} == pytest.approx(
        {kind: expected[kind] for kind in same}, rel=0.03
    )
    assert len(same) >= 2


def test_where_their_kinds_are_less_their_own_figures_say_so() -> None:
    for (name, kind), why in ONLY_SOME_KERNELS.items():
        assert dict(device(name).kernels_ms)[kind] > 1.03 * their_kinds(name)[kind], why
    for name in ("vllm", "sglang"):
        report = EXPECTED[NAMES[name]]
        assert sum(report["kernel_ms_by_category"].values()) < 0.2 * report["gpu_timeline_ms"]["busy_time"]
        products_ms = sum(each["kernel_us"] for each in report["matmuls"]) / 1000
        assert products_ms > 10 * report["kernel_ms_by_category"]["GEMM"]


def test_memsets_are_what_differs_where_nothing_else_does() -> None:
    ours = dict(device("norms").kernels_ms)
    theirs = sum(their_kinds("norms").values())
    assert sum(ours.values()) == pytest.approx(theirs + MEMSETS_MS, abs=1e-3)


@pytest.mark.parametrize("name", [name for name in NAMES if "matmuls" in EXPECTED[NAMES[name]]])
def test_the_largest_products_reach_what_tracelens_says(name: str) -> None:
    ours = {(each.op, each.m, each.n, each.k, each.batch): each for each in device(name).products}
    wrappers = [each for each in EXPECTED[NAMES[name]]["matmuls"] if not each["op"].startswith("aten::")]
    found = [each for each in EXPECTED[NAMES[name]]["matmuls"] if each not in wrappers]
    assert found
    for each in found:
        product = ours.get((each["op"], each["M"], each["N"], each["K"], each["batch"]))
        if name == "vllm" and (each["N"], each["K"]) in IN_A_GRAPH:
            assert product is None
            continue
        assert product is not None
        assert product.calls == each["calls"] and product.dtype == "bfloat16"
        assert product.kernel_us == pytest.approx(each["kernel_us"], rel=0.01)
        assert product.tflops == pytest.approx(each["tflops_mean"], rel=0.02)
    for each in wrappers:  # the same kernels once more, under the operator that calls the product
        assert any(other["kernel_us"] == each["kernel_us"] and other["M"] == each["M"] for other in found)


@cache
def profiled(name: str) -> ProfileData:
    return profile_traces([FOLDER / NAMES[name]], ("profile",))


SAID = {
    "h100_bert": ("92 % of each step leaves the device idle", {"idle_device", "launch_bound"}),
    "mi300_bert": (
        "89 % of each step leaves the device idle", {"idle_device", "launch_bound", "sync_points"},
    ),
    "h100_vit": ("84 % of each step leaves the device idle", {"idle_device", "launch_bound"}),
    "mi300_vit": ("75 % of each step leaves the device idle", {"idle_device", "launch_bound"}),
    "vllm": ("the device works for 156 ms of the host's 308 ms, and computes 100 % of that", set()),
    "sglang": ("100 % of the step computes: the run is compute-bound", set()),
    "norms": ("100 % of each step leaves the device idle", {"idle_device", "launch_bound"}),
    "compiled": ("100 % of the step computes: the run is compute-bound", set()),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_of_each_trace(name: str) -> None:
    result = profiled(name)
    fired = {each.rule for each in result.findings if each.state in ("opportunity", "diagnostic")}
    assert (result.profile.summary, fired) == SAID[name]
    assert not [each for each in result.findings if each.state == "error"]


def test_one_step_makes_a_wide_interval_that_says_so() -> None:
    (finding,) = [each for each in profiled("h100_bert").findings if each.rule == "launch_bound"]
    assert finding.ceiling is not None
    assert finding.ceiling.low == pytest.approx(finding.ceiling.share / 2)
    assert finding.evidence["few_steps"] == 1


def test_a_stream_whose_first_work_waits_does_what_was_launched_before_the_recording() -> None:
    idle = dict(time("sglang").idle)
    assert idle["before_recording"] == pytest.approx(493.1, abs=1)
    assert idle["launch"] + idle["synchronization"] + idle["device"] < 2


def length(intervals: Iterable[tuple[float, float]]) -> float:
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def test_a_training_step_of_several_streams_is_divided_as_holistic_trace_analysis_does() -> None:
    """Its temporal breakdown and its overlap, by their definitions over plain intervals.

    It counts memory that is filled as no computing, which is 0.4 % here.
    """
    path = shared("data", "gpu_traces", "hta_trace_diff_control.json.gz")
    with gzip.open(path) as file:
        events = [each for each in json.load(file)["traceEvents"] if each.get("ph") == "X"]
    spans: dict[str, list[tuple[float, float]]] = {"computing": [], "exchanging": [], "moving": []}
    for each in events:
        if each["cat"] in ("kernel", "gpu_memcpy", "gpu_memset"):
            kind = "moving" if each["cat"] != "kernel" else "computing"
            kind = "exchanging" if "nccl" in each["name"] else kind
            spans[kind].append((each["ts"], each["ts"] + each["dur"]))
    everything = [span for each in spans.values() for span in each]
    total = max(end for _, end in everything) - min(begin for begin, _ in everything)
    window = window_of(read_trace(path), clean_step_ms=None)
    assert window.device is not None and window.device.time is not None
    ours = window.device.time
    per_step = 1000 * window.steps
    assert ours.total_ms == pytest.approx(total / per_step, rel=0.01)
    assert ours.idle_ms == pytest.approx((total - length(everything)) / per_step, rel=0.01)
    assert ours.computing_ms == pytest.approx(length(spans["computing"]) / per_step, rel=0.01)
    both = length([*spans["computing"], *spans["exchanging"]])
    exposed = both - length(spans["computing"])
    assert ours.exposed_communication_ms == pytest.approx(exposed / per_step, rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_a_cut_out_says_what_the_whole_trace_says(name: str) -> None:
    whole = window_of(read_trace(shared("data", "gpu_traces", NAMES[name])), clean_step_ms=None).device
    assert whole is not None
    assert whole.time == time(name)
    assert whole.kernels_ms == device(name).kernels_ms
    assert whole.products == device(name).products
