"""The page itself: offline, safe to open whatever the names in it, within its size, accessible."""

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from html_tree import SVG, asset, controls, elements, parse, parse_fragment, structure, text_of
from report_pages import a_full_result, of_many_trials
from result_builder import (
    a_harmless_twin,
    a_hostile_result,
    a_keep,
    a_result,
    an_empty_result,
    many_trials,
)  # fmt: skip

from advisor.report import files
from advisor.result.document import ResultData

KINDS: dict[str, Callable[[], ResultData]] = {
    "change": a_result,
    "change with findings": a_full_result,
    "keep": a_keep,
    "empty": an_empty_result,
    "hostile": a_hostile_result,
    "2500 trials": lambda: a_result(trials=many_trials(2500)),
}


@pytest.fixture(scope="module", params=KINDS)
def page(request: pytest.FixtureRequest) -> str:
    return files.render_html(KINDS[request.param]())


def test_it_is_valid_html_with_the_security_policy_first(page: str) -> None:
    head = elements(parse(page), "head")[0]
    assert head[0].get("http-equiv") == "Content-Security-Policy"
    assert head[1].attrib == {"charset": "utf-8"}


def test_the_policy_allows_exactly_its_own_script(page: str) -> None:
    tree = parse(page)
    (script,) = elements(tree, "script")
    digest = base64.b64encode(hashlib.sha256((script.text or "").encode()).digest()).decode()
    assert elements(tree, "head")[0][0].get("content") == (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def test_nothing_is_requested_from_elsewhere(page: str) -> None:
    tree = parse(page)
    assert not elements(tree, "link", "img", "iframe", "object", "embed", "base", "form", "image", "use")
    assert {node.get("href", "#")[0] for node in elements(tree, "a")} == {"#"}
    assert not [node for node in tree.iter() if node.get("src") is not None]
    style = "".join(node.text or "" for node in elements(tree, "style"))
    assert "@import" not in style and "url(" not in style
    assert all(
        value.startswith("url(#") for node in tree.iter() for value in node.attrib.values() if "url(" in value
    )


def test_no_attribute_runs_script(page: str) -> None:
    assert not [name for node in parse(page).iter() for name in node.attrib if str(name).startswith("on")]


def test_hostile_names_leave_elements_and_attributes_as_harmless_ones_do() -> None:
    hostile, harmless = (parse(files.render_html(r)) for r in (a_hostile_result(), a_harmless_twin()))
    assert structure(hostile) == structure(harmless)


def test_hostile_names_leave_the_notebook_fragment_as_harmless_ones_do() -> None:
    hostile, harmless = (
        parse_fragment(files.render_fragment(r)) for r in (a_hostile_result(), a_harmless_twin())
    )
    assert structure(hostile) == structure(harmless)


def test_hostile_names_are_shown_as_themselves() -> None:
    shown = text_of(parse(files.render_html(a_hostile_result())))
    for name in (
        "{{7*7}}",
        "${7*7}",
        "<script>alert(1)</script>",
        "[red]x[/foo]",
        "\\xff",
        "'; DROP TABLE studies; --",
    ):
        assert name in shown
    assert "x" * 5000 not in shown


@pytest.mark.parametrize("render", [files.render_html, files.render_fragment, files.render_markdown])
def test_no_face_carries_control_or_direction_characters(render: Any) -> None:
    assert controls(render(a_hostile_result())) == set()


@pytest.mark.parametrize(
    ("result", "most"),
    [
        (an_empty_result, 60_000),
        (lambda: of_many_trials(200), 400_000),
        (lambda: of_many_trials(2500), 1_500_000),
    ],
    ids=["empty", "200 trials", "2500 trials"],
)
def test_a_report_stays_within_its_budget(result: Any, most: int) -> None:
    assert len(files.render_html(result()).encode()) <= most


def test_the_script_stays_within_15_kb() -> None:
    assert len(asset("report.js").encode()) <= 15_000


@pytest.mark.parametrize("result", [a_result, a_hostile_result, lambda: a_result(trials=many_trials(2500))])
def test_the_notebook_fragment_has_no_script_and_stays_within_200_kb(result: Any) -> None:
    fragment = files.render_fragment(result())
    assert len(fragment.encode()) <= 200_000
    assert not elements(parse_fragment(fragment), "script", "iframe", "link", "img")


def test_the_styles_of_the_fragment_reach_only_itself() -> None:
    (style,) = elements(parse_fragment(files.render_fragment(a_result())), "style")
    plain = re.sub(r"@media[^{]*\{", "", style.text or "")
    selectors = [s.strip() for rule in re.findall(r"([^{}]+)\{", plain) for s in rule.split(",")]
    assert selectors and all(s.startswith(".advisor-result") for s in selectors)


def test_ids_are_unique_and_every_reference_finds_its_own(page: str) -> None:
    tree = parse(page)
    ids = [node.get("id") for node in tree.iter() if node.get("id")]
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    links = [node.get("href", "")[1:] for node in elements(tree, "a")]
    labels = [name for node in tree.iter() for name in (node.get("aria-labelledby") or "").split()]
    fills = re.findall(r"url\(#([^)]*)\)", page)
    assert set(links + labels + fills) <= set(ids)


def test_every_chart_has_a_title_a_description_and_its_numbers_in_a_table(page: str) -> None:
    tree = parse(page)
    figures = elements(tree, "figure")
    assert len(figures) == len(elements(tree, "svg")) >= 3
    for figure in figures:
        (svg,) = elements(figure, "svg")
        assert svg.get("role") == "img" and svg.get("viewBox")
        assert [child.tag for child in svg[:2]] == [SVG + "title", SVG + "desc"]
        assert svg.get("aria-labelledby") == f"{svg[0].get('id')} {svg[1].get('id')}"
        assert text_of(svg[0]) and text_of(svg[1])
        (details,) = elements(figure, "details")
        assert len(elements(details, "table")) == 1


def test_headings_start_at_one_and_skip_no_level(page: str) -> None:
    levels = [int(str(node.tag)[-1]) for node in elements(parse(page), "h1", "h2", "h3", "h4")]
    assert levels.count(1) == 1 and levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_tables_have_captions_and_scoped_heads(page: str) -> None:
    tree = parse(page)
    for table in elements(tree, "table"):
        assert len(elements(table, "caption")) == 1
        assert {head.get("scope") for head in elements(table, "th")} <= {"row", "col"}


def test_it_has_a_language_a_skip_link_and_landmarks(page: str) -> None:
    tree = parse(page)
    assert tree.get("lang") == "en"
    assert elements(tree, "a")[0].get("href") == "#main"
    for name in ("header", "nav", "main", "footer", "h1"):
        assert len(elements(tree, name)) == 1, name


def test_controls_that_need_the_script_are_not_in_the_page(page: str) -> None:
    assert not elements(parse(page), "button", "input", "select")


COLOURS = {
    "light": {
        "background": "#ffffff", "text": "#1f2328", "muted": "#57606a", "link": "#0550ae", "good": "#116329",
        "warn": "#7d4e00", "bad": "#a40e26", "series-1": "#0969da", "series-2": "#bc4c00",
    },
    "dark": {
        "background": "#0d1117", "text": "#e6edf3", "muted": "#9198a1", "link": "#79c0ff", "good": "#56d364",
        "warn": "#e3b341", "bad": "#ff7b72", "series-1": "#58a6ff", "series-2": "#f0883e",
    },
}  # fmt: skip


def palettes() -> Iterator[tuple[str, dict[str, str]]]:
    blocks = re.findall(r":root \{([^}]*)\}", asset("palette.css"))
    for scheme, block in zip(("light", "dark"), blocks, strict=False):
        yield scheme, dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))


def test_the_palette_is_the_one_that_was_chosen() -> None:
    for scheme, colours in palettes():
        assert COLOURS[scheme].items() <= colours.items()


@pytest.mark.parametrize("ground", ["background", "surface"])
def test_text_has_a_contrast_of_4_5_and_graphics_of_3(ground: str) -> None:
    for scheme, colours in palettes():
        for role in ("text", "muted", "link", "good", "warn", "bad"):
            assert contrast(colours[role], colours[ground]) >= 4.5, (scheme, role)
        for role in ("series-1", "series-2"):
            assert contrast(colours[role], colours[ground]) >= 3, (scheme, role)


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_styles_use_no_colour_outside_the_palette() -> None:
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b|rgb\(", asset("report.css") + asset("fragment.css"))
