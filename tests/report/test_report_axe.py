"""What axe-core finds wrong with the accessibility of reports: nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import BROWSER, browser_of, opened
from report_pages import write

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed")
pytestmark = [pytest.mark.browsers, pytest.mark.skipif(BROWSER is None, reason="no Chromium here")]

WANTED = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browser_of() as found:
        yield found


def violations(page: Any) -> list[str]:
    """Each as its rule and the first elements that break it."""
    found = axe.Axe().run(page, options=WANTED).response["violations"]
    return [f"{each['id']}: {[node['html'][:160] for node in each['nodes'][:3]]}" for each in found]


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [("empty", "light"), ("change", "light"), ("change", "dark"), ("profile", "light"), ("profile", "dark"),
     ("hostile", "light"), ("real tune", "dark")],
)  # fmt: skip
def test_a_report_breaks_no_rule(browser: Any, tmp_path: Path, kind: str, scheme: str) -> None:
    with opened(browser, write(kind, tmp_path), color_scheme=scheme) as seen:
        seen.page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
        assert violations(seen.page) == []


def test_a_report_of_many_trials_breaks_no_rule_in_a_narrow_window(browser: Any, tmp_path: Path) -> None:
    with opened(browser, write("200 trials", tmp_path), viewport={"width": 320, "height": 900}) as seen:
        assert violations(seen.page) == []


def test_a_rule_that_is_broken_would_be_noticed(browser: Any, tmp_path: Path) -> None:
    with opened(browser, write("empty", tmp_path)) as seen:
        seen.page.evaluate("document.querySelector('p').style.color = '#eeeeee'")
        assert [line.split(":")[0] for line in violations(seen.page)] == ["color-contrast"]
