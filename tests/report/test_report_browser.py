"""A report in a real browser, which needs no driver: what its script makes under its own policy.

`make browsers` looks at the rest: sorting, filters, paper, keyboard, accessibility.
"""

import subprocess
from pathlib import Path

import pytest
from browser import BROWSER
from result_builder import a_result

from advisor.report import files


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_the_policy_lets_the_own_script_make_its_controls(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(files.render_html(a_result()), encoding="utf-8")
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"--user-data-dir={tmp_path}/own")
    dom = subprocess.run(
        [str(BROWSER), *options, page.as_uri()], capture_output=True, text=True, timeout=60, check=False
    ).stdout
    assert dom.count('aria-pressed="false"') >= 5
    assert "13 of 13 rows shown" in dom
    assert 'aria-label="Copy changes.patch"' in dom
