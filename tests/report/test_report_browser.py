"""The report in a real browser: what its script makes, and what it does without one."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from result_builder import a_hostile_result, a_result

from advisor.report import files

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium here"),
]


def dom_after(html: str, folder: Path, action: str = "") -> str:
    """The document after its script and ``action`` ran; the policy is lifted for ``action`` alone."""
    if action:
        html = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
        html = html.replace("</body>", f"<script>{action}</script></body>")
    (folder / "report.html").write_text(html, encoding="utf-8")
    assert BROWSER is not None
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--dump-dom",
        f"--user-data-dir={folder / 'profile'}",
    ]
    run = subprocess.run(
        [BROWSER, *options, f"file://{folder / 'report.html'}"], capture_output=True, text=True, timeout=60
    )
    return run.stdout


def rows_of_trials(dom: str) -> list[str]:
    """Trial numbers of the rows that are shown, in their order."""
    return re.findall(
        r'<tr data-stage="[^"]*" data-state="[^"]*"(?: data-cause="[^"]*")?><th scope="row">(\d+)', dom
    )


def click(text: str) -> str:
    return f"[...document.querySelectorAll('button')].find(b => b.textContent.startsWith('{text}')).click();"


def test_the_policy_lets_the_own_script_make_its_controls(tmp_path: Path) -> None:
    dom = dom_after(files.render_html(a_result()), tmp_path)
    assert dom.count('aria-pressed="false"') >= 5
    assert "13 of 13 rows shown" in dom
    assert 'aria-label="Copy changes.patch"' in dom


def test_hostile_names_run_nothing(tmp_path: Path) -> None:
    html = files.render_html(a_hostile_result())
    assert dom_after(html, tmp_path).count("<script") == html.count("<script") == 1


def test_sorting_by_ratio_puts_missing_values_last_both_ways(tmp_path: Path) -> None:
    html = files.render_html(a_result())
    up = dom_after(html, tmp_path, click("against the baseline"))
    down = dom_after(html, tmp_path, click("against the baseline") * 2)
    assert rows_of_trials(up) == ["5", "6", "11", "4", "1", "12", "3", "2", "10", "9", "0", "7", "8"]
    assert rows_of_trials(down) == ["9", "10", "2", "3", "12", "1", "4", "11", "6", "5", "0", "7", "8"]
    assert 'aria-sort="ascending"' in up and 'aria-sort="descending"' in down


def test_chips_filter_combine_and_count(tmp_path: Path) -> None:
    dom = dom_after(files.render_html(a_result()), tmp_path, click("screen") + click("complete"))
    assert rows_of_trials(dom) == ["1", "2", "3", "4", "6"]
    assert "5 of 13 rows shown" in dom


def test_a_chip_pressed_twice_clears(tmp_path: Path) -> None:
    dom = dom_after(files.render_html(a_result()), tmp_path, click("failed") * 2)
    assert "13 of 13 rows shown" in dom
