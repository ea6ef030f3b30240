"""A step as the device spent it: what it did, what it waited for, in picture, text and digest."""

from result_builder import a_profile_result

from advisor.report.charts.device_chart import device_bar, device_parts
from advisor.report.charts.drawing import PHASES, SAME
from advisor.report.digest import profile_markdown
from advisor.report.files import render_html
from advisor.report.profile_text import render_profile
from advisor.result.document import ProfileData, ProfileSummary

DEVICE = {
    "computing": 0.3, "exposed_communication": 0.0, "exposed_copies": 0.1, "idle": 3.6, "total": 4.0,
}  # fmt: skip
IDLE = {"launch": 3.4, "input": 0.0, "synchronization": 0.2, "after_last_kernel": 0.0, "device": 0.0}


def a_step(idle_ms: dict[str, float] = IDLE, kernels_ms: dict[str, float] | None = None) -> ProfileSummary:
    return ProfileSummary(
        phases_ms={"forward": 3.9}, device_ms=DEVICE, idle_ms=idle_ms, kernels_ms=kernels_ms or {}
    )


def a_result() -> ProfileData:
    return a_profile_result(profile=a_step())


def test_the_parts_of_a_device_add_up_to_its_step() -> None:
    parts = device_parts(a_step())
    assert sum(parts.values()) == DEVICE["total"]
    assert parts["idle_until_a_launch"] == 3.4
    assert device_parts(a_step(idle_ms={}))["idle"] == 3.6


def test_without_a_device_there_is_no_picture() -> None:
    nothing = ProfileSummary(phases_ms={"forward": 1.0})
    assert (device_parts(nothing), device_bar("device", nothing)) == ({}, None)


def test_the_picture_says_that_it_is_the_devices_and_gives_its_numbers() -> None:
    chart = device_bar("device", a_step())
    assert chart is not None
    assert "One step as the device spent it" in str(chart.svg)
    assert ("idle until a launch", "3.40", "85 %") in chart.rows


def test_parts_of_a_device_look_like_known_parts() -> None:
    assert set(SAME.values()) <= set(PHASES)


def test_a_terminal_shows_the_device_first_and_the_host_beside_it() -> None:
    lines = render_profile(a_result(), 100).splitlines()
    device, host = lines.index("One step, on the device:"), lines.index("One step, on the host:")
    assert device < host
    assert lines[device + 1].split()[:6] == ["idle", "until", "a", "launch", "3.40", "ms"]


def test_the_digest_and_the_report_show_both() -> None:
    digest, page = profile_markdown(a_result()), render_html(a_result())
    assert "| idle until a launch | 3.40 ms | 85 % |" in digest
    assert page.index("On the device") < page.index("On the host")
    assert "idle until a launch" in page


def test_kernels_are_told_by_what_they_do() -> None:
    result = a_profile_result(profile=a_step(kernels_ms={"gemm": 0.2, "copy": 0.1, "other": 0.0}))
    lines = render_profile(result, 100).splitlines()
    first = lines.index("Kernels of one step, by what they do:") + 1
    assert [line.split()[0] for line in lines[first : first + 2]] == ["gemm", "copy"]
    assert "| gemm | 0.200 ms | 67 % |" in profile_markdown(result)
