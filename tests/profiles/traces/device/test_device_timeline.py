import pytest
from trace_builder import (
    DEVICE,
    Event,
    a_call,
    a_copy,
    a_function,
    a_kernel,
    a_launch,
    a_node,
    a_step,
    a_trace,
    an_annotation,
    an_operator,
    near,
)

from advisor.profiles.facts.observed import Location, SyncPoint
from advisor.profiles.facts.recorded import Copies, DeviceFacts, DeviceTime, Gap
from advisor.profiles.traces.device.device_timeline import sync_points
from advisor.profiles.traces.ops import window_of

PAGEABLE, PINNED = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"
BACK = "Memcpy DtoH (Device -> Pageable)"


def _device(*events: Event) -> DeviceFacts:
    device = window_of(a_trace(*events), clean_step_ms=None).device
    assert device is not None
    return device


def _steps(count: int, every: float = 1000.0) -> list[Event]:
    return [a_step(at, at * every, every) for at in range(count)]


def _launches(*times: tuple[float, float, float]) -> list[Event]:
    """Kernels by moment of launch, beginning and duration."""
    return [
        event
        for number, (at, begin, duration) in enumerate(times, start=1)
        for event in a_launch("gemm", at, begin, duration, number)
    ]


def test_without_a_device_there_is_nothing_to_say() -> None:
    trace = a_trace(a_step(0, 0, 100), an_operator("aten::item", 0, 50))
    assert window_of(trace, clean_step_ms=None).device is None
    assert sync_points(trace) == ()


def test_shares_are_of_the_time_from_the_first_step_to_the_last() -> None:
    device = _device(
        *_steps(3), *_launches((10, 100, 600), (1010, 1100, 600), (2010, 2100, 900)),
    )  # fmt: skip
    assert (device.busy_share, device.idle_share) == (near(0.6), near(0.4))
    assert (device.kernels, device.mean_kernel_us) == (1.0, near(700))


def test_kernels_at_the_same_time_count_once() -> None:
    other_stream = a_kernel("gemm", 200, 300, 1)
    device = _device(*_steps(1), *_launches((10, 100, 400)), other_stream, *_launches((20, 900, 100)))
    assert device.busy_share == near(500 / 900)


def test_copies_make_the_device_active_but_not_busy() -> None:
    device = _device(
        *_steps(2), *_launches((10, 0, 100), (1010, 1000, 10)), *a_copy(PINNED, 50, 100, 400, 9, 64)
    )
    assert (device.busy_share, device.idle_share) == (near(0.1), near(0.5))


def test_idle_that_ends_with_a_late_launch_waits_for_it() -> None:
    device = _device(*_steps(1), *_launches((0, 10, 10), (40, 50, 10), (45, 60, 10)))
    assert device.idle_share == device.launch_share == near(30 / 60)


def test_idle_with_launches_waiting_does_not_wait_for_them() -> None:
    device = _device(*_steps(1), *_launches((0, 10, 100), (6, 120, 100)))
    assert (device.idle_share, device.launch_share) == (near(10 / 210), 0.0)


def test_idle_while_the_loader_works_is_not_for_launches() -> None:
    loading = an_annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 20, 400)
    device = _device(*_steps(1), *_launches((0, 10, 10), (440, 450, 50)), loading)
    assert device.launch_share == 0
    assert device.gaps == (Gap(near(0.43), during="DataLoader"),)


def test_short_kernels_are_shorter_than_the_call_that_launched_them() -> None:
    device = _device(*_steps(1), *_launches((0, 10, 3), (20, 30, 4), (40, 50, 6), (60, 70, 8)))
    assert device.short_kernels == 0.5


@pytest.mark.parametrize(("kernel_us", "full"), [(100.0, True), (2.0, False)])
def test_the_queue_is_full_where_the_host_runs_ahead(kernel_us: float, full: bool) -> None:
    launches, free = [], 0.0
    for at in range(60):
        free = max(free, 6.0 * at + 8) + kernel_us
        launches.append((6.0 * at, free - kernel_us, kernel_us))
    assert _device(*_steps(1, 10_000), *_launches(*launches)).full_queue is full


def test_the_spread_of_busy_shares_needs_several_steps() -> None:
    launches = [(1000.0 * at, 1000.0 * at, 900.0 if at % 2 else 100.0) for at in range(12)]
    device = _device(*_steps(12), *_launches(*launches))
    assert (device.busy_p5, device.busy_p95) == (near(0.1), near(0.9))
    assert _device(*_steps(3), *_launches(*launches[:3])).busy_p5 is None


def test_kernels_that_change_a_layout_are_timed() -> None:
    events = a_launch("void cudnn::ops::nchwToNhwcKernel<float, float>", 0, 10, 250, 1)
    assert _device(*_steps(2), *events, *_launches((50, 500, 10))).layout_ms == near(0.125)


def test_largest_gaps_say_what_the_host_ran_and_where() -> None:
    device = _device(
        *_steps(1),
        a_function("train.py(12): main", 0, 1000),
        a_function("train.py(30): log", 90, 700),
        *_launches((0, 10, 50)),
        an_operator("aten::item", 100, 600), a_call("cudaMemcpyAsync", 110, 500),
        *a_launch("gemm", 800, 810, 10, 2), *a_launch("gemm", 830, 840, 10, 3),
    )  # fmt: skip
    largest, second = device.gaps
    assert (largest.during, largest.location) == ("aten::item", Location("train.py", 30, "log"))
    assert (largest.ms, second.ms) == (near(0.75), near(0.02))


def test_idle_after_the_host_waited_is_no_wait_for_launches() -> None:
    device = _device(
        *_steps(1), *_launches((0, 10, 500), (700, 710, 50)), a_call("cudaDeviceSynchronize", 20, 500),
    )  # fmt: skip
    assert (device.idle_share, device.launch_share) == (near(200 / 750), 0.0)


def test_only_the_longest_gaps_are_kept() -> None:
    gaps = _device(*_steps(1, 1e5), *_launches(*((100.0 * at, 100.0 * at, 10.0) for at in range(60)))).gaps
    assert len(gaps) == 20


def test_copies_are_told_by_direction_memory_and_overlap() -> None:
    device = _device(
        *_steps(2),
        *a_copy(PAGEABLE, 0, 10, 100, 1, 4096), *a_copy(PINNED, 150, 200, 100, 2, 12288),
        *a_copy(BACK, 900, 950, 10, 3, 4), *a_copy("Memset (Device)", 990, 995, 5, 4, 512),
        *a_launch("gemm", 150, 250, 300, 5), *a_launch("gemm", 1000, 1100, 100, 6),
    )  # fmt: skip
    assert [each.direction for each in device.copies] == ["h2d", "d2h", "memset"]
    assert device.copy("h2d") == Copies(
        "h2d", count=1.0, ms=near(0.1), bytes=8192.0, overlapped=near(0.25), pageable=0.25,
        synchronous=0.0,
    )  # fmt: skip
    assert device.copy("memset") == Copies("memset", count=0.5, ms=near(0.0025), bytes=256.0, synchronous=0.0)


def test_a_copy_is_synchronous_where_its_operator_waits() -> None:
    device = _device(
        *_steps(1),
        an_operator("aten::to", 0, 100), an_operator("aten::copy_", 5, 90),
        *a_copy(PAGEABLE, 10, 20, 50, 1, 1000), a_call("cudaStreamSynchronize", 15, 70),
        an_operator("aten::copy_", 200, 50), *a_copy(PINNED, 210, 220, 50, 2, 3000),
        a_call("cudaMemcpy", 300, 50, 3),
        Event("gpu_memcpy", PAGEABLE, 310, 30, DEVICE, 3, detail={"bytes": 4000}),
    )  # fmt: skip
    copy = device.copy("h2d")
    assert copy is not None
    assert (copy.synchronous, copy.largest_synchronous_bytes) == (5000 / 8000, 4000)


def test_equal_copies_in_a_row_are_one_group() -> None:
    copies = [
        event
        for at, size in enumerate([64, 64, 64, 64, 256, 64])
        for event in a_copy(PINNED, 100 * at, 100 * at + 10, 20, at + 1, size)
    ]
    copy = _device(*_steps(1), *copies).copy("h2d")
    assert copy is not None
    assert (copy.like, copy.like_gap_ms) == (4, near(0.24))


def test_what_is_filled_on_the_host_and_copied_is_found() -> None:
    device = _device(
        *_steps(1),
        a_function("train.py(9): mask", 0, 300),
        an_operator("aten::zeros", 10, 40), an_operator("aten::to", 60, 100),
        *a_copy(PAGEABLE, 70, 80, 10, 1, 4096),
        an_operator("aten::mm", 200, 50), an_operator("aten::to", 260, 30),
        *a_copy(PAGEABLE, 265, 270, 10, 2, 4096), *a_launch("gemm", 310, 320, 10, 3),
    )  # fmt: skip
    assert (device.fill_copies, device.fill_copy_ms) == (1.0, near(0.14))
    assert device.fill_location == Location("train.py", 9, "mask")


def test_reading_a_value_is_a_sync_point_with_the_idle_time_after_it() -> None:
    points = sync_points(
        a_trace(
            *_steps(2),
            a_function("train.py(12): main", 0, 2000),
            *_launches((0, 10, 500), (700, 710, 50), (1010, 1020, 100)),
            an_operator("aten::item", 20, 520), an_operator("aten::_local_scalar_dense", 25, 510),
            *a_copy(BACK, 30, 510, 5, 9, 4), a_call("cudaStreamSynchronize", 40, 480),
        )
    )  # fmt: skip
    (point,) = points
    assert (point.kind, point.where, point.count_per_step) == ("item", "user", 0.5)
    assert point.location == Location("train.py", 12, "main")
    assert point.blocked_ms == near(0.482 / 2)
    assert point.idle_ms == near(0.195)


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        ("aten::nonzero", "nonzero"), ("aten::to", "cpu"), ("aten::index", "index"), ("aten::equal", "equal"),
        ("aten::is_nonzero", "bool"), ("aten::masked_select", "masked_select"), (None, "synchronize"),
    ],
)  # fmt: skip
def test_points_are_called_by_what_the_user_wrote(operator: str | None, kind: str) -> None:
    events = [an_operator(operator, 20, 600)] if operator else []
    points = sync_points(
        a_trace(*_steps(1), *_launches((0, 10, 500)), *events, a_call("cudaStreamSynchronize", 30, 500))
    )
    assert [point.kind for point in points] == [kind]


def test_giving_memory_back_is_a_point_and_making_room_for_an_operator_is_not() -> None:
    points = sync_points(
        a_trace(
            *_steps(1), *_launches((0, 10, 50)), a_call("cudaFree", 100, 200),
            an_operator("aten::empty", 400, 200), a_call("cudaFree", 410, 100),
        )
    )  # fmt: skip
    assert [(point.kind, point.blocked_ms) for point in points] == [("empty_cache", near(0.2))]


def test_the_optimizers_and_the_loaders_waits_are_told_apart() -> None:
    points = sync_points(
        a_trace(
            *_steps(1), *_launches((0, 10, 50)),
            an_annotation("Optimizer.step#Adam.step", 100, 100), an_operator("aten::item", 110, 50),
            a_call("cudaStreamSynchronize", 120, 30),
            an_annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 300, 100),
            a_call("cudaEventSynchronize", 310, 30),
        )
    )  # fmt: skip
    assert sorted((point.where, point.kind) for point in points) == [
        ("loader", "synchronize"), ("optimizer", "item"),
    ]  # fmt: skip


def test_waiting_for_data_on_their_way_to_the_device_is_no_point() -> None:
    points = sync_points(
        a_trace(
            *_steps(1), an_operator("aten::to", 0, 100), *a_copy(PAGEABLE, 10, 20, 50, 1, 1000),
            a_call("cudaStreamSynchronize", 15, 70),
        )
    )  # fmt: skip
    assert points == ()


def test_points_with_the_longest_idle_come_first() -> None:
    waits = [(a_call("cudaDeviceSynchronize", at, 60.0), at) for at in (10, 1000)]
    functions = [a_function("a.py(1): short", 5, 100), a_function("b.py(2): long", 990, 100)]
    points = sync_points(
        a_trace(
            *_steps(1, 5000), *_launches((0, 5, 50), (100, 110, 940), (4000, 4010, 10)), *functions,
            *(call for call, _ in waits),
        )
    )  # fmt: skip
    assert [point.location and point.location.file for point in points] == ["b.py", "a.py"]
    assert isinstance(points[0], SyncPoint) and points[0].idle_ms == near(2.96)


def test_kernels_of_backward_belong_to_the_operators_of_the_engines_thread() -> None:
    engine = ("1", "2")
    window = window_of(
        a_trace(
            a_step(0, 0, 500),
            a_node("MmBackward0", 100, 100, 3, thread=engine),
            an_operator("aten::mm", 110, 50, thread=engine),
            a_call("cudaLaunchKernel", 120, 5, 1, thread=engine), a_kernel("gemm", 130, 70, 1),
        ),
        clean_step_ms=None,
    )  # fmt: skip
    (op,) = [op for op in window.ops if op.self_ms]
    assert (op.name, op.phase, op.self_ms) == ("aten::mm", "backward", near(0.07))


def _time(*events: Event) -> DeviceTime:
    found = _device(*events).time
    assert found is not None
    return found


def test_the_time_of_a_device_is_divided_into_what_it_did() -> None:
    found = _time(
        *_steps(2, 500), *_launches((0, 0, 100), (500, 900, 100)),
        *a_launch("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 10, 50, 150, 7),
        *a_copy(PINNED, 20, 150, 250, 8, 64),
        *a_copy("Memset (Device)", 30, 500, 50, 9, 64),
    )  # fmt: skip
    assert (found.total_ms, found.computing_ms) == (near(0.5), near(0.125))
    assert (found.exposed_communication_ms, found.exposed_copies_ms) == (near(0.05), near(0.1))
    assert found.idle_ms == near(0.225) == near(sum(spent for _, spent in found.idle))
    assert (found.share("computing"), found.share("idle")) == (near(0.25), near(0.45))


def _idle(*events: Event) -> dict[str, float]:
    return {cause: spent for cause, spent in _time(*events).idle if spent}


def test_idle_between_late_launches_waits_for_them() -> None:
    assert _idle(*_steps(1), *_launches((0, 10, 10), (40, 50, 10))) == {"launch": near(0.03)}


def test_idle_behind_a_launch_waits_for_nothing_on_the_host() -> None:
    assert _idle(*_steps(1), *_launches((0, 10, 100), (6, 120, 100))) == {"device": near(0.01)}


def test_a_gap_that_lasts_long_after_the_launch_waits_for_the_device() -> None:
    found = _idle(*_steps(1), *_launches((0, 10, 10), (40, 520, 100)))
    assert found == {"launch": near(0.125), "device": near(0.375)}


def test_the_first_work_of_a_stream_waits_for_what_was_launched_before_the_recording() -> None:
    """As a recording of SGLang begins: a small kernel elsewhere, then 493 ms until the stream is free."""
    elsewhere = (a_call("hipLaunchKernel", 0, 5, 9), a_kernel("index", 10, 5, 9, thread=("0", "3")))
    found = _idle(*_steps(1), *elsewhere, *_launches((20, 5_020, 100), (30, 5_620, 100)))
    assert found == {"launch": near(0.11), "before_recording": near(4.895), "device": near(0.5)}


def test_idle_while_the_loader_works_waits_for_data() -> None:
    loading = an_annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 20, 400)
    assert _idle(*_steps(1), *_launches((0, 10, 10), (440, 450, 50)), loading) == {"input": near(0.43)}


def test_idle_after_the_host_waited_for_the_device_is_for_that_synchronisation() -> None:
    waits = a_call("cudaDeviceSynchronize", 20, 500)
    assert _idle(*_steps(1), *_launches((0, 10, 500), (700, 710, 50)), waits) == {
        "synchronization": near(0.2)
    }


def test_a_synchronisation_with_a_device_that_stands_still_already_holds_nothing_up() -> None:
    waits = a_call("cudaDeviceSynchronize", 600, 3)
    assert _idle(*_steps(1), *_launches((0, 10, 500), (700, 710, 50)), waits) == {"launch": near(0.2)}


def test_idle_until_the_host_has_finished_its_step_comes_after_the_last_kernel() -> None:
    found = _idle(*_steps(2, 500), *_launches((0, 10, 90), (550, 560, 40)))
    assert found == {"after_last_kernel": near(0.2), "launch": near(0.03)}


def test_kernels_that_no_call_launched_wait_for_nothing_known() -> None:
    assert _idle(*_steps(1), a_kernel("gemm", 10, 10), a_kernel("gemm", 50, 10)) == {"other": near(0.03)}


def test_graphs_that_are_captured_are_counted() -> None:
    events = (a_step(0, 0, 1000), an_operator("aten::mm", 10, 50), *a_launch("gemm", 12, 20, 40, 1))
    assert _device(*events).captures == 0
    assert _device(*events, a_call("hipStreamBeginCapture", 100, 5)).captures == 1


def test_idle_while_the_runtime_starts_something_up_waits_for_no_launch() -> None:
    opens = a_call("cudaStreamCreateWithFlags", 30, 5000)
    found = _idle(*_steps(1, 6000), *_launches((0, 10, 10), (5040, 5050, 50)), opens)
    assert found == {"starting": near(5.0), "launch": near(0.03)}


def test_a_long_copy_from_ordinary_memory_starts_nothing_up() -> None:
    copies = a_call("cudaMemcpyAsync", 30, 5000)
    found = _idle(*_steps(1, 6000), *_launches((0, 10, 10), (5040, 5050, 50)), copies)
    assert found == {"launch": near(5.03)}


def test_what_was_launched_before_the_recording_is_left_out() -> None:
    before = [a_kernel("gemm", -10, 300), a_kernel("gemm", 290, 100)]
    kept = [an_operator("aten::mm", 395, 80), *_launches((400, 410, 100), (440, 520, 100))]
    window = window_of(a_trace(*_steps(1), *before, *kept), clean_step_ms=None)
    assert window.device is not None
    assert window.device.time == _time(*_steps(1), *kept)
    assert window.step_ms == near(0.61)
    assert "0.4 ms of the device were launched before the recording and are left out" in window.notes


def test_kernels_without_a_launch_count_behind_those_that_have_one() -> None:
    found = _time(*_steps(1), *_launches((0, 10, 100)), a_kernel("gemm", 150, 50))
    assert found.computing_ms == near(0.15)


def test_a_value_filled_beside_a_copy_of_another_shape_is_not_what_is_copied() -> None:
    fill = [an_operator("aten::zeros", 0, 100, []), an_operator("aten::zero_", 50, 40, [1])]
    move = an_operator("aten::to", 100, 200, [32, 3, 224, 224])
    copy = a_copy(PAGEABLE, 150, 160, 30, 1, 64)
    assert _device(*_steps(1), *fill, move, *copy).fill_copies == 0
    fill[1] = an_operator("aten::zero_", 50, 40, [32, 3, 224, 224])
    assert _device(*_steps(1), *fill, move, *copy).fill_copies == 1


def test_what_a_first_copy_starts_up_is_no_cost_of_copying() -> None:
    fill = an_operator("aten::zeros", 0, 100, [])
    move = an_operator("aten::to", 100, 5000, [4])
    opens = a_call("cudaDeviceGetStreamPriorityRange", 110, 4000)
    device = _device(*_steps(1, 6000), fill, move, opens, *a_copy(PAGEABLE, 4150, 4160, 30, 1, 64))
    assert device.fill_copy_ms == near(1.1)
