"""The part of a report about the kernels of a device."""

import re
from pathlib import Path

import pytest
from result_builder import a_result

from advisor.report.digest import profile_markdown
from advisor.report.files import render_html
from advisor.report.pages.kernels_page import kernels_part, short_name, short_place
from advisor.report.profile_text import render_profile
from advisor.result.document import ProfileData, ProfileSummary
from advisor.result.on_device import Kernel, Product
from advisor.runs.profile_traces import profile_traces

GPU = Path(__file__).parents[2] / "profiles" / "traces" / "gpu"
VIT = GPU / "h100_Falconsai_nsfw_image_detection__1016002.json.gz"


@pytest.fixture(scope="module")
def vit() -> ProfileData:
    return profile_traces([VIT], ("profile", VIT.name))


def test_kernels_are_shown_by_kind_by_product_and_one_by_one() -> None:
    summary = ProfileSummary(
        phases_ms={},
        kernels_ms={"gemm": 3.0, "copy": 0.0, "elementwise": 1.0},
        roofline_by_kind={"gemm": 0.25},
        mfu=0.18,
        rates_from="data sheet of a device",
        products=[Product(op="aten::bmm", m=4, n=5, k=6, batch=2, dtype="float32", calls=3, kernel_us=1500,
                          tflops=1.5, roofline=0.075)],
        kernels=[Kernel(name="void k<4>", kind="gemm", calls=1.5, us=2000, op="aten::mm", tflops=2.0,
                        gb_per_s=300.0, roofline=0.25, bound="memory", location="/a/b/model.py:3")],
    )  # fmt: skip
    part = kernels_part(summary)
    assert part is not None
    assert [(row.name, row.share, row.reached) for row in part.kinds] == [
        ("gemm", "75 %", "25 %"), ("elementwise", "25 %", ""),
    ]  # fmt: skip
    (product,) = part.products
    assert (product.sizes, product.time, product.reached) == ("2 x 4 x 5 x 6", "1.50 ms", "7.5 %")
    (kernel,) = part.kernels
    assert (kernel.name, kernel.whole, kernel.calls) == ("k<4>", "void k<4>", "1.5")
    assert (kernel.reached, kernel.bound, kernel.place) == ("25 %", "memory bandwidth", "b/model.py:3")
    assert part.said == [
        "The arithmetic of the step takes 18 % of it at peak (MFU).",
        "Shares are of the nearer limit, peak arithmetic or memory bandwidth, by the data sheet of a device.",
    ]


def test_without_a_device_there_is_no_such_part() -> None:
    assert kernels_part(ProfileSummary(phases_ms={"forward": 1.0})) is None


def test_names_and_places_are_short() -> None:
    assert short_name("void at::native::" + "x" * 500).startswith("at::native::xxx")
    assert len(short_name("y" * 500)) <= 72
    assert short_place(None) == "" and short_place("deep/in/it/train.py:9") == "it/train.py:9"


def test_every_face_shows_the_kernels_of_a_trace(vit: ProfileData) -> None:
    html, text, digest = render_html(vit), render_profile(vit, 100), profile_markdown(vit)
    assert '<h2 id="kernels">Kernels</h2>' in html and "788 x 3072 x 768" in html
    assert "On the device" in html and "data sheet of the NVIDIA H100 SXM" in html
    assert "Kernels that take most:" in text and "1.8 % of it at peak (MFU)" in text
    assert "### Matrix products" in digest and "788 x 768 x 768" in digest
    assert max(map(len, text.splitlines())) <= 100


def test_the_report_of_a_tuning_shows_the_kernels_and_products_of_its_baseline(vit: ProfileData) -> None:
    html = render_html(a_result(profile=vit.profile))
    assert '<h2 id="kernels">Kernels</h2>' in html and "788 x 3072 x 768" in html
    assert '<h2 id="kernels">' not in render_html(a_result())


def test_every_colour_of_a_part_has_a_swatch(vit: ProfileData) -> None:
    html = render_html(vit)
    used = {classes for _, classes in re.findall(r'<span class="(swatch) ([\w-]+)', html)}
    assert "bad" in used, "idle time until a launch is drawn so"
    assert all(re.search(rf"\.{name} {{ --swatch:", html) for name in used)
