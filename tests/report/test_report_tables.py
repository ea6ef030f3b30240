"""Tables of a report under the hands of a reader: sorted by pointer and by keyboard, filtered, remembered."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import BROWSER, Opened, browser_of, opened
from report_pages import KINDS, write

from advisor.result.document import ResultData, Trial

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = [pytest.mark.browsers, pytest.mark.skipif(BROWSER is None, reason="no Chromium here")]

ROWS = "[...document.querySelectorAll('table[data-filters~=stage] tbody tr')].filter(r => !r.hidden)"
MOST_MS = {"load": 10_000, "sort": 2_000}  # ten times what is wanted, for a machine that does much else


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browser_of() as found:
        yield found


@pytest.fixture
def change(browser: Any, tmp_path: Path) -> Iterator[Opened]:
    with opened(browser, write("change", tmp_path)) as found:
        yield found


def numbers(seen: Opened) -> list[int]:
    """Trials of the rows that are shown, in their order."""
    found: list[int] = seen.page.evaluate(f"{ROWS}.map(r => Number(r.cells[0].textContent))")
    return found


def wanted(column: str, sign: int) -> list[int]:
    """Trials in the order of a measured value, those without one last; equal ones as they were."""
    result = KINDS["change"]()
    assert isinstance(result, ResultData)
    values = {trial.number: measured(trial, column) for trial in result.trials}
    there = {number: value for number, value in values.items() if value}
    missing = [number for number in values if number not in there]
    return [*sorted(there, key=lambda number: sign * there[number]), *missing]


def measured(trial: Trial, column: str) -> float:
    """What a trial measured; zero for nothing."""
    if column == "peak memory":
        return trial.peak_bytes or 0.0
    value = trial.step_ms if column == "step" else trial.against_baseline
    return 0.0 if value is None else value.estimate


@pytest.mark.parametrize("column", ["against the baseline", "step", "peak memory"])
def test_a_click_sorts_by_value_and_missing_ones_stay_last(change: Opened, column: str) -> None:
    button = change.page.locator("table[data-filters~=stage] th", has_text=column).get_by_role("button")
    button.click()
    assert numbers(change) == wanted(column, 1)
    button.click()
    assert numbers(change) == wanted(column, -1)


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_a_key_sorts_and_the_head_says_so(change: Opened, key: str) -> None:
    head = change.page.locator("table[data-filters~=stage] th", has_text="step").first
    head.get_by_role("button").focus()
    change.page.keyboard.press(key)
    assert head.get_attribute("aria-sort") == "ascending"
    change.page.keyboard.press(key)
    assert head.get_attribute("aria-sort") == "descending"
    assert change.page.locator("table[data-filters~=stage] th[aria-sort]").count() == 1
    assert numbers(change) == wanted("step", -1)


def chips(seen: Opened, *words: str) -> None:
    bar = seen.page.locator("section[aria-labelledby=trials] .filters")
    for word in words:
        bar.get_by_role("button", name=word).first.click()


def test_chips_filter_combine_agree_with_their_counts_and_clear(change: Opened) -> None:
    every = numbers(change)
    live = change.page.locator("section[aria-labelledby=trials] [aria-live]")
    chips(change, "failed (")
    assert numbers(change) == [7, 8]
    assert live.text_content() == f"2 of {len(every)} rows shown"
    chips(change, "oom host (")
    assert numbers(change) == [8]
    chips(change, "oom host (", "failed (")
    assert numbers(change) == every
    assert live.text_content() == f"{len(every)} of {len(every)} rows shown"


def test_findings_filter_by_severity(change: Opened) -> None:
    section = change.page.locator("section[aria-labelledby=findings]")
    section.get_by_role("button", name="high (").first.click()
    table = section.locator("table").first
    assert {row.get_attribute("data-severity") for row in table.locator("tbody tr:visible").all()} == {"high"}


def test_what_was_sorted_and_filtered_is_there_after_a_reload(change: Opened) -> None:
    change.page.locator("table[data-filters~=stage] th", has_text="step").first.get_by_role("button").click()
    chips(change, "complete (")
    before = numbers(change)
    change.page.reload()
    assert numbers(change) == before
    assert change.page.locator(".filters [aria-pressed=true]").count() == 1


def test_copying_selects_the_text(change: Opened) -> None:
    change.page.get_by_role("button", name="Copy the command that applies").click()
    assert change.page.evaluate("getSelection().toString()") == "advisor apply advisor-report --write"


def test_a_report_of_5000_trials_loads_and_sorts_at_once(browser: Any, tmp_path: Path) -> None:
    with opened(browser, write("5000 trials", tmp_path)) as seen:
        loads, sorts = [], []
        for _ in range(2):
            seen.page.reload()
            loads.append(seen.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
            sorts.append(
                seen.page.evaluate(
                    """() => { const start = performance.now();
                    document.querySelector('table[data-filters~=stage] th:nth-child(5) button').click();
                    document.body.offsetHeight; return performance.now() - start; }"""
                )
            )
        assert len(numbers(seen)) == 2000
        assert min(loads) < MOST_MS["load"] and min(sorts) < MOST_MS["sort"]


DISPLAYED = f"{ROWS}.filter(r => r.getClientRects().length).map(r => Number(r.cells[0].textContent))"
MORE = "section[aria-labelledby=trials] .scroll + button"


def test_a_long_table_shows_its_first_rows_until_all_are_asked_for(browser: Any, tmp_path: Path) -> None:
    with opened(browser, write("5000 trials", tmp_path)) as seen:
        more = seen.page.locator(MORE)
        assert seen.page.evaluate(DISPLAYED) == numbers(seen)[:200] and len(numbers(seen)) == 2000
        more.get_by_text("Show all 2000 rows").click()
        assert seen.page.evaluate(DISPLAYED) == numbers(seen)
        more.get_by_text("Show the first 200 rows").click()
        seen.page.locator("table[data-filters~=stage] th", has_text="step").get_by_role("button").click()
        assert seen.page.evaluate(DISPLAYED) == numbers(seen)[:200]
        chips(seen, "failed (")
        few = numbers(seen)
        assert 0 < len(few) < 2000 and seen.page.evaluate(DISPLAYED) == few[:200]


def test_a_long_table_is_printed_whole(browser: Any, tmp_path: Path) -> None:
    with opened(browser, write("5000 trials", tmp_path)) as seen:
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert len(seen.page.evaluate(DISPLAYED)) == 2000
        seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert len(seen.page.evaluate(DISPLAYED)) == 200


def test_a_table_that_is_not_long_has_nothing_more_to_show(change: Opened) -> None:
    assert change.page.locator(MORE).count() == 0
