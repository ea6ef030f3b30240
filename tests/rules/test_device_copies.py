import pytest
from builders import a_device, a_gpu_profile, a_rich_profile, a_window
from trace_builder import a_copy, a_launch, a_step, a_trace, an_operator

from advisor.advice.finding import Finding, Kind, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.recorded import KernelCost
from advisor.rules.device_copies import DeviceCopies
from advisor.runs.profile_traces import profile_of

LINE = Location("model.py", 31)
PLAIN = "void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda(at::TensorIteratorBase&)>"
MEMCPY = "Memcpy DtoD (Device -> Device)"


def check(*kernels: KernelCost, wrapped: bool = False) -> Finding:
    return DeviceCopies().check(
        a_gpu_profile(window=a_window(device=a_device(heaviest=kernels), wrapped=wrapped))
    )


def test_copies_that_take_a_tenth_of_the_step_are_reported_with_their_line() -> None:
    gemm = KernelCost("gemm", "gemm", 10.0, 5000.0, "aten::mm")
    finding = check(gemm, KernelCost(PLAIN, "elementwise", 24.0, 1000.0, "aten::copy_", LINE))
    assert finding.state is State.OPPORTUNITY and finding.kind is Kind.WASTE
    assert finding.title == "10 % of each step copies tensors within the device, 24 times"
    assert finding.location == LINE
    assert finding.advice.startswith("Copy less at model.py:31")
    assert finding.evidence["copies_ms"] == 1.0


def test_memory_that_is_copied_as_it_is_should_have_been_written_there() -> None:
    finding = check(KernelCost(MEMCPY, "copy", 700.0, 1000.0, "aten::copy_"))
    assert finding.title.endswith("700 times") and "`out=`" in finding.advice


def test_a_few_percent_pass_with_the_number() -> None:
    finding = check(KernelCost(MEMCPY, "copy", 10.0, 490.0, "aten::copy_"))
    assert finding.state is State.PASSED and finding.title.startswith("4.9 %")


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "aten::copy_"),
        (f"{PLAIN}<LoadWithCast<1>, StoreWithCast<1>>", "aten::copy_"),
        ("void at::native::bfloat16_copy_kernel_cuda", "aten::copy_"),
        (PLAIN, "aten::add"),
    ],
)
def test_transfers_and_conversions_are_no_such_copies(name: str, op: str) -> None:
    assert check(KernelCost(name, "elementwise", 10.0, 3000.0, op)).title.startswith("0.0 %")


def test_without_a_device_timeline_it_abstains() -> None:
    assert DeviceCopies().check(a_rich_profile(window=a_window())).state is State.NOT_APPLICABLE


def test_a_trace_with_many_copies_within_the_device_says_so() -> None:
    """Forty of 5 us in a step of 1 ms, between products."""
    events = [a_step(0, 0, 1000)]
    for at in range(40):
        begin = 20.0 * at
        copy = a_copy(MEMCPY, begin + 1, begin + 12, 5, 2 * at + 1, 4096)
        gemm = a_launch("gemm", begin + 10, begin + 18, 10, 2 * at + 2, call_us=2)
        events += [
            an_operator("aten::copy_", begin, 5, [1024], [1024]), *copy,
            an_operator("aten::mm", begin + 9, 5, [8, 8], [8, 8]), *gemm,
        ]  # fmt: skip
    trace = a_trace(*events)
    finding = DeviceCopies().check(profile_of([trace], trace))
    assert finding.state is State.OPPORTUNITY
    assert finding.title == "20 % of each step copies tensors within the device, 40 times"
